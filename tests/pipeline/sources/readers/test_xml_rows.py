"""Each row of an XML file has one outcome, in the file's own encoding."""

import gzip

import pytest

from tests.pipeline.sources.readers.read_one_file import read_file, reasons, texts
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import XmlSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.readers import xml_rows

PAIRS = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE entailment-corpus SYSTEM "rte.dtd">
<entailment-corpus challenge="1">
<pair id="8" value="FALSE">
\t<t>Oil &amp; gas
fell</t>
\t<h> Oil rose </h>
</pair>
<!-- no pair -->
<pair id="12" value="TRUE"><t>Ann slept</t><h>She <b>did</b> sleep</h></pair>
</entailment-corpus>
"""
COLUMNS = ColumnsConfig(text="t", second_text="h", label="@value")


def read(tmp_path, raw: str | bytes, row="pair", columns=COLUMNS, name="a.xml"):
    content = raw.encode() if isinstance(raw, str) else raw
    (tmp_path / name).write_bytes(content)
    source = XmlSourceConfig(path=str(tmp_path / name), row=row, columns=columns)
    return read_file(xml_rows, source)


def whole(path, row, columns):
    """The arguments of `read` for a whole file."""
    file = SourceFile.at(path, path.name)
    source = XmlSourceConfig(path=str(path), row=row, columns=columns)
    return Span(file, 0, file.size), source


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz"])
def test_children_and_attributes_are_columns(tmp_path, name):
    raw = PAIRS.encode()
    raw = gzip.compress(raw) if name.endswith("gz") else raw
    columns = ColumnsConfig(text="t", second_text="#text", label="@value")
    first, second = read(tmp_path, raw, columns=columns, name=name)
    assert first == Document(
        "Oil & gas\nfell", name, 0, "Oil & gas\nfell\n\t Oil rose", label="FALSE"
    )
    assert second == Document(
        "Ann slept", name, 1, "Ann sleptShe did sleep", label="TRUE"
    )


def test_a_child_with_children_has_its_text_below_it(tmp_path):
    found = read(tmp_path, PAIRS)
    assert reasons(found) == [(1, "field 'h' is not text")]
    columns = ColumnsConfig(text="{t} / {h.#text} / {h.b}")
    (_, second) = read(tmp_path, PAIRS, columns=columns)
    assert second.text == "Ann slept / She did sleep / did"


def test_attributes_alone_repeated_children_and_namespaces(tmp_path):
    posts = '<posts xmlns="urn:x"><row Id="1" Body="One"/><row Id="2"/></posts>'
    found = read(tmp_path, posts, row="row", columns=ColumnsConfig(text="@Body"))
    assert found[0].text == "One"
    assert reasons(found) == [(1, "no field '@Body'")]
    tmx = (
        "<tmx><body><tu><tuv xml:lang='en'><seg>Yes</seg></tuv>"
        "<tuv xml:lang='de'><seg>Ja</seg></tuv></tu></body></tmx>"
    )
    columns = ColumnsConfig(
        text="tuv.0.seg", target_text="tuv.1.seg", label="tuv.1.@lang"
    )
    assert read(tmp_path, tmx, row="tu", columns=columns) == [
        Document("Yes", "a.xml", 0, target_text="Ja", label="de")
    ]


def test_a_row_within_a_row_belongs_to_it(tmp_path):
    nested = "<a><p>one <p>two</p></p><p>three</p></a>"
    found = read(tmp_path, nested, row="p", columns=ColumnsConfig(text="#text"))
    assert texts(found) == ["one two", "three"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_the_encoding_is_the_one_that_the_file_declares(tmp_path, encoding):
    raw = f'<?xml version="1.0" encoding="{encoding}"?>\n<a><p>caf\u00e9</p></a>'
    found = read(
        tmp_path, raw.encode(encoding), row="p", columns=ColumnsConfig(text="#text")
    )
    assert texts(found) == ["caf\u00e9"]


@pytest.mark.parametrize(
    ("raw", "before", "reason"),
    [
        (PAIRS[: PAIRS.index("<!--")], 1, "truncated XML"),
        (PAIRS[:-5], 2, "truncated XML"),
        (PAIRS.replace("<!--", "< & <"), 1, "damaged XML"),
        (PAIRS.replace("Ann", "&unknown;"), 1, "damaged XML"),
        (PAIRS.encode().replace(b"Ann", b"\xff\xfe"), 1, "damaged XML"),
        (PAIRS.replace("UTF-8", "no-code"), 0, "damaged XML"),
        (PAIRS.replace("pair", "pears"), 0, "no element <pair>"),
        ("", 0, "truncated XML"),
        ('{"text": "x"}', 0, "damaged XML"),
    ],
)
def test_damage_keeps_the_rows_before_it(tmp_path, raw, before, reason):
    content = raw.encode() if isinstance(raw, str) else raw
    path = tmp_path / "a.xml"
    path.write_bytes(content)
    found = []
    with pytest.raises(BrokenFile, match=reason) as caught:
        found.extend(xml_rows.read(*whole(path, "pair", ColumnsConfig(text="t"))))
    assert len(texts(found)) == before
    (damage,) = caught.value.damage
    assert damage.offset == before
    assert damage.doubtful == (reason == "truncated XML")
    if not before:
        assert damage.unread == len(content)


def test_no_entity_grows_and_no_file_is_opened(tmp_path):
    (tmp_path / "secret").write_text("secret")
    laughs = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY e0 "ha">{laughs}]><a><p>&e11;</p></a>'
    outside = f'<!DOCTYPE a [<!ENTITY e SYSTEM "{tmp_path}/secret">]><a><p>&e;</p></a>'
    for raw in (bomb, outside):
        with pytest.raises(BrokenFile, match="damaged XML"):
            read(tmp_path, raw, row="p", columns=ColumnsConfig(text="#text"))


def test_a_gap_within_a_row_takes_that_row(tmp_path):
    text = "".join(["<a>\n", *(f"<p>text {n}</p>\n" for n in (1, 2, 3)), "</a>"])
    begin = text.index("text 2")
    members = [text[:begin], text[begin : begin + 3], text[begin + 3 :]]
    packed = [bytearray(gzip.compress(member.encode())) for member in members]
    packed[1][-6] ^= 0xFF  # its checksum
    found = []
    path = tmp_path / "a.xml.gz"
    path.write_bytes(b"".join(packed))
    with pytest.raises(BrokenFile, match="gzip"):
        found.extend(xml_rows.read(*whole(path, "p", ColumnsConfig(text="#text"))))
    assert [type(item) for item in found] == [Document, Rejected, Document]
    assert reasons(found) == [(1, "torn by a damaged stretch of the file")]


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    most = 0

    class Spied(xml_rows._RowParser):
        def _start(self, element, name, offset):
            super()._start(element, name, offset)
            nonlocal most
            most = max(most, len(self._above[0]))

    monkeypatch.setattr(xml_rows, "_RowParser", Spied)
    rows = "<p>x</p>\n<other>y</other>\n" * 500
    found = read(tmp_path, f"<a>{rows}</a>", "p", ColumnsConfig(text="#text"))
    assert len(found) == 500
    assert most < 5
