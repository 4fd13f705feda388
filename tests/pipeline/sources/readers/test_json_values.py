"""JSON in arrays and over several lines: every object is a document or a rejection."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.sources.readers.read_one_file import read_file, reasons, texts
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.readers import jsonl
from transbeam.pipeline.sources.work_units import plan_units, read_unit


def array(rows, **options):
    return json.dumps(rows, **options)


def one_after_the_other(rows, **options):
    return "\n".join(json.dumps(row, **options) for row in rows)


def read(path, content: bytes, **options):
    path.write_bytes(content)
    return read_file(jsonl, JsonlSourceConfig(path=str(path), **options))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("json") / "a.json"


@pytest.fixture(scope="module", params=[7, 1 << 18])
def block(request):
    """Files are read in small blocks, too, so that they end anywhere in a value."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_BLOCK_BYTES", request.param)
        yield


@pytest.mark.usefixtures("block")
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"text": st.text(st.characters(exclude_categories=["Cs"]))},
            optional={
                "n": st.floats(allow_nan=False) | st.integers(),
                "in": st.just({}),
            },
        ),
        min_size=1,
    ),
    written=st.sampled_from([array, one_after_the_other]),
    indent=st.sampled_from([1, 2, "\t"]),
    ascii_only=st.booleans(),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_round_trip(scratch, rows, written, indent, ascii_only, codec):
    content = written(rows, indent=indent, ensure_ascii=ascii_only).encode(codec)
    found = read(scratch, content, encoding=codec)
    assert texts(found) == [row["text"] for row in rows]
    for item in found:
        assert (
            content[item.offset :]
            .decode("utf-16-le" if codec == "utf-16" else "utf-8")
            .startswith("{")
        )


@pytest.mark.parametrize(
    "content",
    [
        b'[{"text": "one"}, {"text": "two"}]',
        b'\n [ {"text": "one"},\n{"text": "two"}\n]\n',
        b'{"text": "one",\n "label": "a"}\n{"text":\n"two"}',
        b'[{"text": "one"}]\n[{"text": "two"}]',
    ],
)
def test_layouts_by_hand(tmp_path, content):
    assert texts(read(tmp_path / "a.jsonl", content)) == ["one", "two"]


def test_an_array_in_a_compressed_file_and_a_large_one_are_not_cut(tmp_path):
    rows = [{"text": f"row {number}", "label": "x"} for number in range(300)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    source = JsonlSourceConfig(
        path=f"{tmp_path}/*", columns=ColumnsConfig(label="label")
    )
    units = plan_units(list_files(source), source, 1000)
    found = [item for unit in units for item in read_unit(unit, source)]
    assert texts(found) == [row["text"] for row in rows] * 3


@pytest.mark.usefixtures("block")
def test_a_broken_value_is_the_only_one_lost(tmp_path):
    rows = [{"text": "one", "more": {"text": "no"}}, {"text": "two"}, {"text": "three"}]
    content = json.dumps(rows, indent=2).replace('"two"', '"two').encode()
    found = read(tmp_path / "a.json", content)
    assert [i.text for i in found if isinstance(i, Document)] == ["one", "three"]
    offset = content.index(b'{\n    "text": "two')
    assert reasons(found) == [(offset, "not JSON: Invalid control character at")]
    assert len(found) == 3
    assert found[1].size == content.index(b'{\n    "text": "three') - offset


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'[{"text": "one"}, {"text" "two"}]', "not JSON: Expecting ':' delimiter"),
        (b'[{"text": "one"}, oh\n{"text": "two"}]', "not JSON: Expecting value"),
    ],
)
def test_what_cannot_be_found_again_is_rejected_with_the_rest(tmp_path, content, why):
    first, rest = read(tmp_path / "a.json", content)
    assert isinstance(first, Document)
    assert isinstance(rest, Rejected)
    assert (rest.offset, rest.reason) == (18, why)
    assert rest.size == len(content) - 18  # all of it counts as quarantined
    assert content[18:].startswith(rest.excerpt.encode())


def test_other_values_of_an_array(tmp_path):
    found = read(tmp_path / "a.json", b'[{"text": "caf\xe9"}, 12, "a", {"txt": ""}]')
    assert reasons(found) == [
        (1, "not UTF-8"),
        (19, "not a JSON object"),
        (23, "not a JSON object"),
        (28, "no field 'text'"),
    ]
    assert [item.size for item in found[:3]] == [16, 2, 3]


def test_lines_stay_lines(tmp_path):
    content = b'{"text": "cut\n{"text": "whole"}\n["text"]\n[1, 2]\n'
    found = read(tmp_path / "a.jsonl", content)
    assert [item.text for item in found if isinstance(item, Document)] == ["whole"]
    assert [why for _, why in reasons(found)] == [
        "not JSON: Unterminated string starting at",
        "not a JSON object",
        "not a JSON object",
    ]


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("kept", [20, 40, -1])
def test_an_array_that_is_cut_is_not_whole(scratch, indent, kept):
    whole = array([{"text": f"row {n}"} for n in range(5)], indent=indent).encode()
    scratch.write_bytes(whole[:kept])
    source = JsonlSourceConfig(path=str(scratch))
    (unit,) = plan_units(list_files(source), source, 10**6)
    *_, last = read_unit(unit, source)
    assert isinstance(last, Rejected)
    assert (last.reason, last.doubtful) == ("truncated JSON", True)


def test_an_object_of_several_lines_that_is_cut(tmp_path):
    content = b'{\n "text": "one"\n}\n{\n "text": "tw'
    first, last = read(tmp_path / "a.json", content)
    assert isinstance(first, Document)
    assert isinstance(last, Rejected)
    assert (last.offset, last.reason, last.doubtful) == (19, "truncated JSON", True)
