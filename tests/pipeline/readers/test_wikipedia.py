"""Each page of a dump has one outcome, and damage does not undo what came before."""

import bz2
from pathlib import Path

import pytest

from configs.sources import WikipediaSource
from pipeline.documents import Document, Filtered
from pipeline.readers import wikipedia
from pipeline.readers.files import BrokenFile
from pipeline.readers.wikipedia import read
from pipeline.spans import SourceFile, Span

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
    return read(Span(file, 0, file.size), WikipediaSource(path="*"))


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


@pytest.mark.parametrize(
    "raw",
    [
        DUMP[: DUMP.index("T14")].encode(),
        DUMP.replace("T14", "T14 & more").encode(),
        DUMP.encode().replace(b"T14", b"T\xff14"),
    ],
    ids=["cut short", "bad entity", "not UTF-8"],
)
def test_damage(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "dump.xml").write_bytes(raw)
    found = []
    with pytest.raises(BrokenFile) as caught:
        found.extend(read_all(tmp_path / "dump.xml"))
    assert (caught.value.reason, caught.value.offset) == ("damaged XML", 13)


def test_memory_does_not_grow_with_the_dump(tmp_path: Path, monkeypatch) -> None:
    roots, iterparse = [], wikipedia.ElementTree.iterparse

    def spied(stream, events):
        for event, element in iterparse(stream, events):
            roots.append(element)
            yield event, element

    monkeypatch.setattr(wikipedia.ElementTree, "iterparse", spied)
    pages = [page(number, "x" * 1000) for number in range(1, 200)]
    (tmp_path / "dump.xml").write_text(HEAD + "".join(pages) + "</mediawiki>")
    # The parser is ahead by a block of 16 kB.
    assert max(len(roots[0]) for _ in read_all(tmp_path / "dump.xml")) < 20
