"""Every byte and every document of a damaged corpus is in the books."""

import bz2
import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.data import DataConfig
from configs.run import RunConfig
from configs.sources import Source, TextSource, WarcSource, WikipediaSource, ZipSource
from configs.table_sources import CsvSource, JsonlSource, ParquetSource, TFRecordSource
from pipeline.accounts import counts_of
from pipeline.corpus import list_files
from pipeline.prepare import prepare_unit
from pipeline.source_bytes import UnreadFile, unread_files
from pipeline.sources import plan_units
from pipeline.states import read_states

ROWS = [f"row {i} of a corpus, {i * i} words" for i in range(300)]
LINES = "".join(json.dumps({"text": row}) + "\n" for row in ROWS).encode()


def flipped(raw: bytes, place: float) -> bytes:
    damaged = bytearray(raw)
    damaged[int(len(raw) * place)] ^= 0x20
    return bytes(damaged)


def members(pack: Callable[[bytes], bytes], number: int = 5) -> list[bytes]:
    """The lines in so many members."""
    lines = LINES.splitlines(keepends=True)
    step = len(lines) // number
    return [pack(b"".join(lines[i : i + step])) for i in range(0, len(lines), step)]


def with_damage(pack: Callable[[bytes], bytes]) -> bytes:
    """Five members, the middle one damaged."""
    packed = members(pack)
    packed[2] = flipped(packed[2], 0.5)
    return b"".join(packed)


def parquet(path: Path) -> bytes:
    table = pa.table({"text": ROWS})
    pq.write_table(table, path, row_group_size=60, use_dictionary=False)
    group = pq.ParquetFile(path).metadata.row_group(2).column(0)
    raw = bytearray(path.read_bytes())
    start = group.data_page_offset
    raw[start : start + 40] = bytes(40)
    return bytes(raw)


def archive(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(3):
            packed.writestr(f"{number}.txt", f"text {number} " * 200)
    raw = path.read_bytes()
    return raw.replace(b"1.txt", b"1.tx\0", 1)  # no longer what the directory says


def warc(_: Path) -> bytes:
    def record(text: str) -> bytes:
        head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(text)}\r\n"
        return gzip.compress(f"{head}\r\n{text}\r\n\r\n".encode())

    records = [record(row) for row in ROWS]
    records[7] = flipped(records[7], 0.5)
    return b"".join(records)


def wikipedia(_: Path) -> bytes:
    pages = [
        f"<page>\n<id>{n}</id>\n<revision><text>{row}</text></revision>\n</page>\n"
        for n, row in enumerate(ROWS, start=1)
    ]
    pages[5] = pages[5].replace("of", "&of", 1)
    return f"<mediawiki>\n{''.join(pages)}</mediawiki>\n".encode()


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 4]


# name of the file, source, its bytes, documents that are read, doubtful
CORPORA = [
    ("a.jsonl.gz", JsonlSource, lambda _: with_damage(gzip.compress), 240, False),
    ("a.jsonl.bz2", JsonlSource, lambda _: with_damage(bz2.compress), 240, False),
    ("a.jsonl.xz", JsonlSource, lambda _: with_damage(lzma.compress), 240, False),
    ("cut.jsonl.gz", JsonlSource, lambda _: cut(gzip.compress(LINES)), None, True),
    ("a.parquet", ParquetSource, parquet, 240, False),
    ("cut.parquet", ParquetSource, lambda path: cut(parquet(path)), 0, True),
    ("a.zip", ZipSource, archive, 2, False),
    ("a.warc.gz", WarcSource, warc, 299, False),
    ("a.xml", WikipediaSource, wikipedia, 299, False),
    ("a.txt", TextSource, lambda _: b"one\n\n\xff\n\n" + b" \n" * 9 + b"two", 2, False),
    ("a.tfrecord", TFRecordSource, lambda _: b"no records at all" * 9, 0, False),
    ("a.csv", CsvSource, lambda _: b'text,x\none,1\n"two,2\n3,4,5\n', 1, False),
]


@pytest.mark.parametrize("corpus", CORPORA, ids=[row[0] for row in CORPORA])
def test_bytes_and_documents_add_up(tmp_path: Path, corpus) -> None:
    name, kind, make, documents, doubtful = corpus
    path = tmp_path / name
    path.write_bytes(make(path))
    source: Source = kind(path=str(path))
    config = RunConfig(name="x", data=DataConfig(source=source))
    folder = tmp_path / "data"
    for part in ("state", "documents"):
        (folder / part).mkdir(parents=True)
    files = list_files(source)
    (unit,) = plan_units(files, source, 10**6)
    parts = prepare_unit(unit, config, folder)
    counts = counts_of(folder)
    (state,) = read_states(folder, "documents")

    found = sum(state["documents"].values())
    assert documents is None or found == documents
    assert counts["read"] == found + sum(
        sum(counts[fate].values()) for fate in ("filtered", "quarantined")
    )
    lost = sum(state["bytes"].values())
    assert path.stat().st_size == lost + sum(part.source_bytes for part in parts)
    assert counts["bytes"]["source"] == path.stat().st_size
    assert all(number >= 0 for number in state["bytes"].values())
    files = unread_files([state])
    assert any(file.doubtful for file in files) == doubtful
    if name in ("a.txt", "a.csv"):  # quarantined, but read
        assert (files, state["bytes"]["unread"]) == ([], 0)
        assert state["bytes"]["quarantined"] > 0
    else:
        (file,) = files
        assert (file.name, file.size) == (name, path.stat().st_size)
        assert (file.unread, file.documents) == (state["bytes"]["unread"], found)
        assert file.unread or doubtful


def test_a_fifth_of_the_members_is_a_fifth_of_the_bytes(tmp_path: Path) -> None:
    packed = members(gzip.compress)
    (tmp_path / "a.jsonl.gz").write_bytes(with_damage(gzip.compress))
    source = JsonlSource(path=str(tmp_path / "a.jsonl.gz"))
    config = RunConfig(name="x", data=DataConfig(source=source))
    for part in ("state", "documents"):
        (tmp_path / part).mkdir()
    (unit,) = plan_units(list_files(source), source, 10**6)
    prepare_unit(unit, config, tmp_path)
    assert counts_of(tmp_path)["bytes"]["unread"] == len(packed[2])


def test_a_file_in_several_units_is_one_file() -> None:
    row = {"name": "b", "size": 9, "doubtful": False}
    one = {**row, "unread": 2, "documents": 5, "reasons": ["x"]}
    two = {**row, "unread": 3, "documents": 7, "reasons": ["x", "y"]}
    last = {**one, "name": "a", "doubtful": True}
    assert unread_files([{"unread": [one]}, {"unread": [two, last]}]) == [
        UnreadFile("a", 9, 2, 5, True, ("x",)),
        UnreadFile("b", 9, 5, 12, False, ("x", "y")),
    ]


def test_unread_bytes_are_those_of_the_spans(tmp_path: Path) -> None:
    """Of a file in another encoding only the first span finds the mark."""
    text = "\ufeff" + "a line of text\n" * 200
    (tmp_path / "a.txt").write_bytes(text.encode("utf-16-le"))
    source = TextSource(path=str(tmp_path / "a.txt"), document="line")
    config = RunConfig(name="x", data=DataConfig(source=source))
    for part in ("state", "documents"):
        (tmp_path / part).mkdir()
    units = plan_units(list_files(source), source, 1000)
    assert len(units) == 7
    for unit in units:
        prepare_unit(unit, config, tmp_path)
    (file,) = unread_files(read_states(tmp_path, "documents"))
    assert (file.unread, file.size) == (1000, 6002)
    assert counts_of(tmp_path)["bytes"]["unread"] == 1000
