"""Parquet tables: each row once, only the columns asked for, damage reported."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.sources.readers.read_one_file import read_file, reasons, texts
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import (
    JsonlSourceConfig,
    ParquetSourceConfig,
)
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.readers import jsonl, parquet
from transbeam.pipeline.sources.work_units import plan_units, read_unit


def test_rows_over_many_groups(tmp_path):
    expected = [f"row {i}" for i in range(3000)]
    table = pa.table({"unused": [b"\xff"] * 3000, "text": expected})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    found = read_file(parquet, ParquetSourceConfig(path=str(tmp_path / "a.parquet")))
    assert texts(found) == expected
    assert [item.offset for item in found] == list(range(3000))


def test_nested_columns_lists_and_nulls(tmp_path):
    rows = [
        {"t": {"en": "Hi Ann", "de": "x"}, "w": ["Hi", "Ann"], "n": [0, 1], "y": 2.5},
        {"t": {"en": None, "de": "x"}, "w": ["Hi"], "n": [0], "y": 1.0},
        {"t": None, "w": None, "n": None, "y": float("nan")},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    columns = ColumnsConfig(text="t.en", label="y")
    found = read_file(parquet, ParquetSourceConfig(path=path, columns=columns))
    assert found[0] == Document("Hi Ann", "a.parquet", 0, label="2.5")
    assert reasons(found) == [(1, "no field 't.en'"), (2, "no field 't.en'")]
    columns = ColumnsConfig(words="w", tags="n")
    found = read_file(parquet, ParquetSourceConfig(path=path, columns=columns))
    assert found[0] == Document(
        "Hi Ann", "a.parquet", 0, words=("Hi", "Ann"), tags=("0", "1")
    )
    assert reasons(found) == [(2, "no field 'w'")]


def test_conversations_are_read_as_from_json_lines(tmp_path):
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    shared = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
    pq.write_table(
        pa.Table.from_pylist([{"m": talk, "n": shared}]), tmp_path / "a.parquet"
    )
    (tmp_path / "a.jsonl").write_text(json.dumps({"m": talk, "n": shared}))
    for column in ("m", "n"):
        columns = ColumnsConfig(messages=column)
        (found,) = read_file(
            parquet,
            ParquetSourceConfig(path=str(tmp_path / "a.parquet"), columns=columns),
        )
        (expected,) = read_file(
            jsonl, JsonlSourceConfig(path=str(tmp_path / "a.jsonl"), columns=columns)
        )
        assert found.messages == (("user", "Hi"), ("assistant", "Yo"))
        assert found == expected._replace(source="a.parquet")


def test_bytes_and_text_that_is_no_utf_8(tmp_path):
    raw = [b"fine", b"caf\xe9", b"fine too"]
    as_text = pa.array(raw, pa.binary()).view(pa.string())
    table = pa.table({"bytes": pa.array(raw, pa.binary()), "text": as_text})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    found = read_file(parquet, ParquetSourceConfig(path=str(path)))
    assert reasons(found) == [(1, "not UTF-8")]
    assert len(found) == 3
    source = ParquetSourceConfig(path=str(path), columns=ColumnsConfig(text="bytes"))
    assert reasons(read_file(parquet, source)) == [(1, "field 'bytes' is not UTF-8")]


def test_values_that_python_cannot_hold_cost_their_row(tmp_path):
    path = tmp_path / "a.parquet"
    when = pa.array([0, 2**62, 1], pa.timestamp("us"))
    pq.write_table(pa.table({"t": ["x", "y", "z"], "when": when}), path)
    source = ParquetSourceConfig(
        path=str(path), columns=ColumnsConfig(text="t", label="when")
    )
    assert reasons(read_file(parquet, source)) == [
        (0, "field 'when' is not text"),
        (1, "a date or time that Python cannot hold"),
        (2, "field 'when' is not text"),
    ]


def test_an_encrypted_column_does_not_end_the_process(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"]}), path)

    def iter_batches(*_, **__):
        raise OSError("Cannot decrypt ColumnMetadata. FileDecryption is not setup")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    with pytest.raises(BrokenFile, match="encrypted Parquet column") as broken:
        read_file(parquet, ParquetSourceConfig(path=str(path)))
    assert broken.value.damage[0].unread == path.stat().st_size


def test_two_columns_of_a_name(tmp_path):
    path = tmp_path / "a.parquet"
    columns = [pa.array(["one"]), pa.array(["two"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["text", "text"]), path)
    with pytest.raises(DataError, match=r"two columns 'text'.* text, text"):
        read_file(parquet, ParquetSourceConfig(path=str(path)))


def test_compressed_as_a_whole(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"]}), path)
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(BrokenFile, match=r"compressed as a whole.* unpack") as broken:
        read_file(parquet, ParquetSourceConfig(path=str(packed)))
    assert broken.value.damage[0].unread == packed.stat().st_size


def test_no_such_column(tmp_path):
    pq.write_table(pa.table({"texts": ["x"], "id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"no column 'text'.*texts, id. Did you mean"):
        read_file(parquet, ParquetSourceConfig(path=str(tmp_path / "a.parquet")))


@pytest.mark.parametrize("size", [0, 3, 2000, -9])
def test_truncated(tmp_path, size):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"row {i}" for i in range(3000)]})
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BrokenFile, match="truncated or damaged Parquet file") as caught:
        read_file(parquet, ParquetSourceConfig(path=str(path)))
    (damage,) = caught.value.damage
    assert (damage.unread, damage.doubtful) == (path.stat().st_size, True)


def test_what_is_no_parquet_is_not_cut(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"some other file" * 100)
    with pytest.raises(BrokenFile) as caught:
        read_file(parquet, ParquetSourceConfig(path=str(tmp_path / "a.parquet")))
    (damage,) = caught.value.damage
    assert (damage.unread, damage.doubtful) == (1500, False)


def test_a_damaged_row_group_does_not_take_the_others(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"row {i}" for i in range(5000)]})
    pq.write_table(
        table, path, row_group_size=1000, use_dictionary=False, compression="zstd"
    )
    group = pq.ParquetFile(path).metadata.row_group(3).column(0)
    content = bytearray(path.read_bytes())
    start = group.data_page_offset
    content[start : start + group.total_compressed_size] = bytes(
        group.total_compressed_size
    )
    path.write_bytes(content)
    file = SourceFile.at(path, path.name)
    found = list(
        parquet.read(Span(file, 0, file.size), ParquetSourceConfig(path=str(path)))
    )
    (entry,) = (item for item in found if isinstance(item, Rejected))
    found.remove(entry)
    # By its share of the rows: a look at a damaged column's size may abort the process.
    told = ("damaged Parquet row group", 3000, round(file.size / 5), False)
    assert (entry.reason, entry.offset, entry.unread, entry.doubtful) == told
    assert "row group 3, 1000 rows from here" in entry.excerpt
    sound = [i for i in range(5000) if not 3000 <= i < 4000]
    assert texts(found) == [f"row {i}" for i in sound]
    assert [item.offset for item in found] == sound


def test_a_broken_file_does_not_stop_the_next(tmp_path):
    pq.write_table(pa.table({"text": ["fine"]}), tmp_path / "b.parquet")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "b.parquet").read_bytes()[:-9])
    source = ParquetSourceConfig(path=f"{tmp_path}/*.parquet")
    (unit,) = plan_units(list_files(source), source, 10**6)
    broken, document = read_unit(unit, source)
    assert isinstance(broken, Rejected)
    assert (broken.source, broken.reason) == (
        "a.parquet",
        "truncated or damaged Parquet file",
    )
    assert document == Document("fine", "b.parquet", 0)
