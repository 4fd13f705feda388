"""What a reader would read stays, and no input makes the stripper slow or fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.wikitext import plain_text

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


def test_names_of_another_language() -> None:
    wikitext = "[[Datei:x.jpg|thumb|y]]Roggen[[Kategorie:Getreide]]"
    assert plain_text(wikitext, {"datei", "kategorie"}) == "Roggen"


pieces = st.sampled_from(
    ["{{", "}}", "[[", "]]", "\n{|", "\n|}", "|", "<ref>", "</ref>", "a b", "'''", "=="]
)


@given(st.lists(pieces, max_size=40).map("".join))
def test_any_nesting(wikitext: str) -> None:
    text = plain_text(wikitext)
    assert not set(text) & {"{", "<"} or "{|" in text
    assert plain_text("{{" + wikitext.replace("}", "") + "}}after").endswith("after")


@pytest.mark.parametrize(
    "piece",
    ["{{", "[[", "<ref>", "[[a|", "[http:a", "( ", "\n", " \n", "<", "=", "''", "<!--"],
)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    plain_text(piece * 200_000)  # in quadratic time this would take hours
