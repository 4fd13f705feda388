"""Prose is kept, and no input makes the extraction slow or fail."""

import mwparserfromhell
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.sources.readers.wikitext.prose import plain_text, prose
from transbeam.pipeline.sources.readers.wikitext.templates import split_template

PAGE = """\
{{Short description|Cereal}}
{{Infobox
| name = Rye
| range = {{nowrap|{{convert|5|km}} }}
}}<!-- {{ never closed -->
[[File:Rye.jpg|thumb|A [[field]] of '''rye''']]
'''Rye''' (''Secale cereale''; {{IPA|raɪ}}) is a [[Poaceae|grass]] grown as [[grain]].\
<ref name="a">See [[x]].</ref>
It is ''sweet''<ref name="b" /> &amp; [https://example.org/a?b dark] [https://example.org].

== History ==
{| class="wikitable"
|-
| a || {{b|}}
|}
* first
** ''second''
:;third<br/>fourth
----
=== Yield ===
H<sub>2</sub>O &lt;ref&gt; __TOC__
[[Category:Grasses]]
[[de:Roggen]]
[[:Category:Shown]] [[wikt:rye|]]
"""

TEXT = """\
Rye (Secale cereale) is a grass grown as grain.
It is sweet & dark .

History

first
second
third
fourth

Yield
H2O <ref>

Category:Shown wikt:rye"""


def test_page_by_hand() -> None:
    assert plain_text(PAGE) == TEXT


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a {{b {{c}} d}} e", "a e"),
        ("a {{nowrap|b {{lang|fr|[[c|d]]}} e}} f", "a b d e f"),
        ("a {{nowrap|1=b = c}} {{nowrap|d {{=}} {{!}} e}}", "a b = c d = | e"),
        ("a {{{1}}} b {{{2|c}}} d {{{{{3}}}}} e", "a b c d e"),
        ("{{{a}} b} {c}", "{ b} {c}"),
        ("a {{b}}, c {{d}} {{k}}; f", "a, c; f"),
        (
            "<nowiki>[[a]] {{b}} ''c''\n* =d= &lt;</nowiki>",
            "[[a]] {{b}} ''c''\n* =d= <",
        ),
        (
            "<pre>{{a}}</pre> b <nowiki/>c <nowiki>{{d}} e",
            "{{a}} b c  e".replace("  ", " "),
        ),
        ("-{zh-hans:\u8ba1;zh-hant:\u8a08}-a-{b}--{H|zh:c}-", "\u8ba1ab"),
        ("-{A|sr-ec:\u0430;sr-el:a}- -{ {{nowrap|b}} }- x-{y", "\u0430 b x-{y"),
        ("never {{closed", "never closed"),
        ("stray }} and ]]", "stray and"),
        ("[[a]] {{b [[c}} d]]", "a d"),
        ("a<ref>b [[c</ref> d", "a d"),
        ("<REF>a</REF >b<math>x<y</math>", "b"),
        ("born (, {{x}}; ) in (d. 1999, {{y}})", "born in (d. 1999)"),
        ("l'''amour'' et ''''x'''", "lamour et 'x"),
        ("x = {| y", "x = {| y"),
        ("  {|\n| a {{x|}}\n|}b", "b"),
        ("1 < 2 > 1 <3", "1 < 2 > 1 <3"),
        ("=", "="),
        ("", ""),
    ],
)
def test_marks(wikitext: str, text: str) -> None:
    assert plain_text(wikitext) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("{{convert|324|m|ft|abbr=on}}", "324 m"),
        ("{{Convert|5|to|10|km2|sqmi|0}}", "5 to 10 km²"),
        ("{{cvt|6|ft|2|in|cm}}", "6 ft 2 in"),
        ("{{convert|12500|-|13000|km|mi}}", "12,500–13,000 km"),
        ("{{convert}}{{convert|1|to}}{{convert|a|b}}", "1 toa"),
        ("{{formatnum:1234567.5}} {{formatnum: x}}", "1,234,567.5 x"),
        ("{{val|6.241|0.003|e=18|u=kg}} {{val|1|up=s}}", "6.241±0.003×10¹⁸ kg 1/s"),
        ("{{lang|grc|ἀναρχία}} {{lang-ru|мир}} {{enS|peace}}", "ἀναρχία мир peace"),
        ("{{transl|ar|al-J}} {{transl|ru|GOST|mir}}", "al-J mir"),
        ("{{circa|1400}} {{circa|1400|1450}} {{c.}}", "c. 1400 c. 1400 – c. 1450 c."),
        ("{{frac|3}} {{frac|1|2}} {{sfrac|2|1|2}} {{frac}}", "1/3 1/2 2 1/2 /"),
        (
            "{{as of|2014|3}} {{as of|2014|3|5|lc=y}}",
            "As of March 2014 as of 5 March 2014",
        ),
        (
            "{{as of|alt=Since May}} {{birth date|1990|1|2}}",
            "Since May January 2, 1990",
        ),
        ("{{nihongo|A|B|C}} {{nihongo}} {{nihongo||B}}", "A (B, C) B"),
        ("a{{snd}}b{{'s}} {{uc:c}} {{HMS|Ajax|22}}", "a – b's C HMS Ajax"),
        ("{{chem|C|H|4}} {{math|''x''}} {{e|24}}", "CH4 x ×10²⁴"),
        ("{{convert|2.5|e6km2}} {{cvt|3|e9USgal}}", "2.5 million km² 3 billion US gal"),
        ("{{ubl|a|b}} {{Death date and age|2000|1|2|1950}}", "a, b January 2, 2000"),
        ("{{XIXe siècle}} {{1er}} mai {{2e|armée}}", "XIXe siècle 1er mai 2e armée"),
        ("{{date|12|mai|1900}} {{Maßeinheit|5|km}}", "12 mai 1900 5 km"),
        ("{{仮リンク|名前|en|Name}} {{нп5|Имя||en|Name}} {{нп5|A|B}}", "名前 Имя B"),
        ("a{{citation needed|date=May}}{{sfn|B|1995}}{{Cite web|url=c}} d", "a d"),
    ],
)
def test_words_of_templates(wikitext: str, text: str) -> None:
    assert prose(wikitext) == (text, {})


def test_numbers_are_grouped_as_the_wiki_does() -> None:
    wikitext = "{{formatnum:12345.5}} {{convert|2000|km}}"
    assert prose(wikitext, language="de").text == "12.345,5 2.000 km"
    assert prose(wikitext, language="fr").text == "12 345,5 2 000 km"
    assert prose(wikitext, language="xx").text == "12345.5 2000 km"


def test_what_is_dropped_inside_sentences_is_counted_by_kind() -> None:
    wikitext = """\
{{Hatnote|a}}
{{Infobox
| a = {{price|1}}
}}It costs {{price|7}} or {{Price |8}} and <math>a^2</math>, {{#if:x|y}}\
 {{{1}}}.<ref>{{a}}</ref>
* {{only|b}}
{| class="b"
| {{c}}
|}
"""
    assert prose(wikitext).dropped == {
        "{{price}}": 2,
        "<math>": 1,
        "{{#if:}}": 1,
        "{{{parameter}}}": 1,
        "{{only}}": 1,
    }


def test_headings_without_text_are_left_out() -> None:
    wikitext = "= A =\n== B ==\n{{c}}\n=== D ===\n== E ==\n=== F ===\ng\n== H ==\n{{i}}"
    assert plain_text(wikitext) == "A\n\nE\nF\ng"


@pytest.mark.parametrize("name", ["Bild", "Archivo", "ファイル", "wp-file alias"])
def test_files_are_dropped_by_any_name_of_their_namespace(name: str) -> None:
    wikitext = (
        f"[[{name}:a b.JPG|mini|Ein ''Bild'' von [[Köln]]]]Text [[:{name}:c.png]]"
    )
    assert plain_text(wikitext) == f"Text {name}:c.png"


# One equals sign at most: with two the reference sees a heading.
values = st.from_regex(r"[ab1 \n]{0,3}=?[ab1 \n]{0,3}", fullmatch=True)


@given(st.lists(values, min_size=1, max_size=6))
def test_arguments_are_those_of_the_reference_parser(parts: list[str]) -> None:
    source = "name|" + "|".join(parts)
    reference = mwparserfromhell.parse("{{" + source + "}}").filter_templates()[0]
    _, arguments = split_template(source)
    ours = {str(i): value for i, value in enumerate(arguments.positional, 1)}
    ours |= arguments.named
    expected = {str(p.name).strip(): str(p.value).strip() for p in reference.params}
    # Where a position is given twice the last one counts, as MediaWiki has it.
    assert {name: value for name, value in ours.items() if value} == {
        name: value for name, value in expected.items() if value
    }


@pytest.mark.parametrize("name", ["分类", "カテゴリ", "Категория", "Catégorie"])
def test_categories_are_dropped_by_names_that_dumps_do_not_tell(name: str) -> None:
    assert plain_text(f"Rye [[{name}:Grass]]grows.[[{name}:Grain|a]]") == "Rye grows."


def test_a_gap_in_a_templates_name_is_not_counted_with_it() -> None:
    assert prose("A {{{{{1}}}box}} b.").dropped == {"{{box}}": 1}


def test_names_of_another_language() -> None:
    wikitext = "[[Datei:x.jpg|thumb|y]]Roggen[[Kategorie:Getreide]]"
    assert plain_text(wikitext, {"datei", "kategorie"}) == "Roggen"


pieces = st.sampled_from(
    ["{{", "}}", "[[", "]]", "\n{|", "\n|}", "|", "<ref>", "</ref>", "a b", "'''", "=="]
)
more_pieces = st.sampled_from(
    ["{{{", "}}}", "-{", "}-", "<nowiki>", "</nowiki>", "{{lang|", ";", "zh:", "1"]
)


@given(st.lists(pieces, max_size=40).map("".join))
def test_any_nesting(wikitext: str) -> None:
    text = plain_text(wikitext)
    assert "<" not in text
    assert "{{" not in text
    assert plain_text("{{" + wikitext.replace("}", "") + "}}after").endswith("after")


@given(st.lists(pieces | more_pieces, max_size=40).map("".join))
def test_any_marks(wikitext: str) -> None:
    text, dropped = prose(wikitext)
    assert all(ord(character) < 0x10_0000 for character in text)
    assert all(kind[0] in "{<" and count > 0 for kind, count in dropped.items())


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "{{",
            "[[",
            "<ref>",
            "[[a|",
            "[http:a",
            "( ",
            "\n",
            " \n",
            "<",
            "=",
            "''",
            "<!--",
        ),
        *("<nowiki>", "-{", "{{a}}", "a{{a}} ", "}}-", "== a ==\n", "-{zh:a;"),
    ],
)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    plain_text(piece * 200_000)  # in quadratic time this would take hours


def test_time_grows_with_the_length_of_nested_braces_alone() -> None:
    plain_text("{" * 200_000 + "a}}" * 100_000)
    plain_text("{{nowrap|" * 100_000 + "}}" * 100_000)
