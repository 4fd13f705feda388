"""Each page of a dump has one outcome, and damage does not undo what came before."""

import bz2
import gzip
from pathlib import Path

import pytest

from transbeam.configs.schema.sources import WikipediaSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Filtered,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.readers import wikipedia
from transbeam.pipeline.sources.readers.wikipedia import read

HEAD = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
  <siteinfo><sitename>Wikipedia</sitename><namespaces>
    <namespace key="0" case="first-letter" />
    <namespace key="6" case="first-letter">Datei</namespace>
  </namespaces></siteinfo>
"""


def page(number: int, text: str, ns: int = 0, extra: str = "", model="wikitext") -> str:
    return f"""\
  <page><title>T{number}</title><ns>{ns}</ns><id>{number}</id>{extra}
    <revision><id>9</id><model>{model}</model><text bytes="0">old</text></revision>
    <revision><id>10</id><model>{model}</model><text>{text}</text></revision>
  </page>
"""


DUMP = "".join(
    [
        HEAD,
        page(12, "[[Datei:a.png]]'''Rye''' &amp;lt; [[wheat]]"),
        page(13, "#REDIRECT [[Rye]]", extra='<redirect title="Rye" />'),
        page(14, "Hello", ns=1),
        page(15, "{}", model="json"),
        page(16, ""),
        "<page><title>No id</title><revision><text>x</text></revision></page>",
        "<page><title>No text</title><id>17</id></page>",
        "</mediawiki>",
    ]
)


def read_all(path: Path):
    file = SourceFile.at(path, path.name)
    return read(Span(file, 0, file.size), WikipediaSourceConfig(path="*"))


@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.bz2"])
def test_outcome_of_every_page(tmp_path: Path, name: str) -> None:
    raw = DUMP.encode()
    if name.endswith("bz2"):  # two streams, as in the multistream dumps
        raw = bz2.compress(raw[:500]) + bz2.compress(raw[500:])
    (tmp_path / name).write_bytes(raw)
    found = list(read_all(tmp_path / name))
    assert found[:5] == [
        Document("Rye < wheat", name, 12),
        Filtered("redirect", name, 13),
        Filtered("not an article", name, 14),
        Filtered("not wikitext", name, 15),
        Document("", name, 16),
    ]
    assert [item.reason for item in found[5:]] == ["page without id or text"] * 2
    assert [item.excerpt for item in found[5:]] == ["No id", "No text"]


def test_the_wiki_and_what_was_dropped(tmp_path: Path) -> None:
    head = HEAD.replace("<mediawiki ", '<mediawiki xml:lang="de" ')
    pages = [
        page(12, "Es wiegt {{formatnum:12345}} kg {{vorlage|x}}."),
        page(13, "#WEITERLEITUNG [[Roggen]]"),
        page(14, "#1 [[a]] und [[b]]"),
        page(15, "#REDIRECT [[Rye]] {{R from move}}\n\n[[Kategorie:Getreide]]\n"),
    ]
    (tmp_path / "dump.xml").write_text(head + "".join(pages) + "</mediawiki>")
    report = ReadingReport()
    assert list(reported(read_all(tmp_path / "dump.xml"), report)) == [
        Document("Es wiegt 12.345 kg.", "dump.xml", 12),
        Filtered("redirect", "dump.xml", 13),
        Document("1 a und b", "dump.xml", 14),
        Filtered("redirect", "dump.xml", 15),
    ]
    assert report.dropped == {"{{vorlage}}": 1}


def reasons(path: Path) -> list[tuple[int, str, int, bool]]:
    return [
        (item.offset, item.reason, item.unread, item.doubtful)
        for item in read_all(path)
        if isinstance(item, Rejected)
    ]


def numbers(path: Path) -> list[int]:
    found = read_all(path)
    return [item.offset for item in found if isinstance(item, Document)]


@pytest.mark.parametrize(
    "page_14",
    [
        page(14, "Hello &more"),
        page(14, "Hello").replace("Hello", "\x01"),
        page(14, "Hello").replace("</text>", "</txet>", 1),
        page(14, "Hello").replace("  </page>\n", ""),
    ],
    ids=["entity", "no character", "other end", "no end"],
)
def test_a_damaged_page_is_one_entry_and_the_next_ones_are_read(
    tmp_path: Path, page_14: str
) -> None:
    pages = [page(12, "a"), page(13, "b"), page_14, page(15, "c"), page(16, "d")]
    path = tmp_path / "dump.xml"
    path.write_text("".join([HEAD, *pages, "</mediawiki>"]))
    ((offset, reason, unread, doubtful),) = reasons(path)
    assert (offset, reason, doubtful) == (13, "damaged XML", False)
    assert 0 <= unread <= len(page_14)
    assert numbers(path) == [12, 13, 15, 16]


def test_pages_on_one_line(tmp_path: Path) -> None:
    pages = [page(n, "text &bad" if n == 3 else "text") for n in range(1, 6)]
    path = tmp_path / "dump.xml"
    path.write_text("".join([HEAD, *pages, "</mediawiki>"]).replace("\n", " "))
    assert reasons(path)[0][:2] == (2, "damaged XML")
    assert numbers(path) == [1, 2, 4, 5]


def test_cut_short(tmp_path: Path) -> None:
    (tmp_path / "dump.xml").write_text(DUMP[: DUMP.index("T14")])
    assert reasons(tmp_path / "dump.xml") == [(13, "truncated XML", 0, True)]


def test_no_xml_at_all(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    path.write_bytes(b"Rye is a grass.\n" * 100)
    assert reasons(path) == [(0, "damaged XML", 1600, False)]


def test_a_stream_of_a_multistream_dump_is_damaged(tmp_path: Path) -> None:
    pages = [page(n, f"text {n * n} " * 50) for n in range(1, 31)]
    texts = [HEAD, "".join(pages[:10]), "".join(pages[10:20]), "".join(pages[20:])]
    streams = [bytearray(bz2.compress(text.encode())) for text in texts]
    streams[2][len(streams[2]) // 2] ^= 0xFF
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(b"".join([*streams, bz2.compress(b"</mediawiki>")]))
    found, damage = [], ()
    try:
        found.extend(read_all(path))
    except BrokenFile as broken:
        damage = broken.damage
    assert [item.offset for item in found] == [*range(1, 11), *range(21, 31)]
    assert [d.unread for d in damage] == [len(streams[2])]


def test_a_gap_within_a_page_takes_that_page(tmp_path: Path) -> None:
    text = "".join([HEAD, *(page(n, f"text {n}") for n in (1, 2, 3)), "</mediawiki>"])
    begin, end = text.index("text 2"), text.index("text 2") + 3
    members = [text[:begin], text[begin:end], text[end:]]
    packed = [bytearray(gzip.compress(member.encode())) for member in members]
    packed[1][-6] ^= 0xFF  # its checksum
    path = tmp_path / "dump.xml.gz"
    path.write_bytes(b"".join(packed))
    found = []
    with pytest.raises(BrokenFile):
        found.extend(read_all(path))
    assert [(type(i).__name__, i.offset) for i in found] == [
        ("Document", 1),
        ("Rejected", 1),
        ("Document", 3),
    ]


def test_memory_does_not_grow_with_the_dump(tmp_path: Path, monkeypatch) -> None:
    open_now: list[int] = []
    local = wikipedia._local

    def spied(element):
        if local(element) == "mediawiki":
            open_now.append(len(element))
        return local(element)

    monkeypatch.setattr(wikipedia, "_local", spied)
    pages = [page(number, "x" * 1000) for number in range(1, 200)]
    (tmp_path / "dump.xml").write_text(HEAD + "".join(pages) + "</mediawiki>")
    assert len(numbers(tmp_path / "dump.xml")) == 199
    assert max(open_now) < 20
