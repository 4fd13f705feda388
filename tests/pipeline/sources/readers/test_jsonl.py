"""JSON lines: every line is one document or one rejection with its reason."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.sources.readers.read_one_file import read_file, reasons, texts
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.readers import jsonl


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("jsonl") / "a.jsonl"


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    st.booleans(),
    st.integers(1, 50),
)
def test_round_trip_in_any_spans(scratch, values, ascii_only, step):
    lines = [json.dumps({"text": v}, ensure_ascii=ascii_only) + "\n" for v in values]
    scratch.write_bytes("".join(lines).encode())
    source = JsonlSourceConfig(path=str(scratch))
    assert texts(read_file(jsonl, source, step)) == values


def test_bad_lines_are_rejected_one_by_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"text": "first", "text": "last"}\n'
        b'{"txt": "no field"}\n'
        b"\n"
        b'{"text": "cut\n'
        b'["text"]\n'
        b'{"text": "\\ud800"}\n'
        b'{"text": "caf\xe9"}\n'
        b'{"text": "fine", "score": NaN}\r\n'
        b'{"text": 12}\n' + b"[" * 100_000 + b"\n" + b'{"text": "no newline"}'
    )
    found = read_file(jsonl, JsonlSourceConfig(path=str(path)))
    assert [item.text for item in found if isinstance(item, Document)] == [
        "last",
        "fine",
        "no newline",
    ]
    assert reasons(found) == [
        (37, "no field 'text'"),
        (58, "not JSON: Unterminated string starting at"),
        (72, "not a JSON object"),
        (81, "field 'text' contains a lone surrogate"),
        (113, "not UTF-8"),
        (149, "field 'text' is not text"),
        (162, "JSON with a number or a nesting beyond all bounds"),
    ]
    assert len(found) == 10  # all lines but the blank one
    assert all(item.size > 7 for item in found if isinstance(item, Rejected))


def test_nested_fields_and_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"translation": {"en": "Hi", "de": "Hallo"}, "ok": true}\n')
    columns = ColumnsConfig(
        text="translation.en", target_text="translation.de", label="ok"
    )
    assert read_file(jsonl, JsonlSourceConfig(path=str(path), columns=columns)) == [
        Document("Hi", "a.jsonl", 0, target_text="Hallo", label="true")
    ]


def test_truncated_gzip_keeps_what_came_before(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    rows = "".join(json.dumps({"text": f"row {i}"}) + "\n" for i in range(20_000))
    path.write_bytes(gzip.compress(rows.encode())[:-2000])
    file = SourceFile.at(path, path.name)
    reading = jsonl.read(Span(file, 0, file.size), JsonlSourceConfig(path=str(path)))
    found = []
    with pytest.raises(BrokenFile, match="truncated gzip stream"):
        found.extend(reading)  # keeps what it got
    *found, last = found
    assert reasons([last]) == [(last.offset, "torn by a damaged stretch of the file")]
    assert 10_000 < len(found) < 20_000
    assert texts(found) == [f"row {i}" for i in range(len(found))]


@pytest.mark.parametrize(
    "rest",
    ["{", '{"te', '{"text"', '{"text": ', '{"text": "tw', '{"text": 1, "l": tru'],
)
def test_a_last_line_that_ends_early_shows_a_cut(tmp_path, rest):
    path = tmp_path / "a.jsonl"
    source = JsonlSourceConfig(path=str(path))
    for end, doubtful in (("", True), ("\n", False)):
        path.write_text('{"text": "one"}\n' + rest + end)
        _, last = read_file(jsonl, source)
        assert isinstance(last, Rejected)
        assert (last.offset, last.doubtful) == (16, doubtful)
        assert (last.reason == "truncated JSON") == doubtful
    path.write_text('{"text": "one"}\n(1 row)')
    _, last = read_file(jsonl, source)
    assert isinstance(last, Rejected)
    assert not last.doubtful
