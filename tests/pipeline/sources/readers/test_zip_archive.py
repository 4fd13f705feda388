"""Every member asked for is read, or told to be unreadable."""

import zipfile
from pathlib import Path

import pytest

from transbeam.configs.schema.sources import ZipSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.readers.zip_archive import read


def read_all(path: Path, **keys):
    file = SourceFile.at(path, path.name)
    return list(read(Span(file, 0, file.size), ZipSourceConfig(path=str(path), **keys)))


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    return path


def test_a_member_without_a_name_does_not_end_the_job(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.zip", {"b": b"one", "a.txt": b"two"})
    raw = path.read_bytes()
    place = raw.rindex(b"b", 0, raw.rindex(b"a.txt"))  # in the directory at the end
    path.write_bytes(raw[:place] + b"\0" + raw[place + 1 :])
    assert read_all(path)[-1] == Document("two", "a.zip/a.txt", 0)


def test_a_name_that_is_damaged_costs_its_member(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.zip", {"é.txt": b"one", "a.txt": b"two"})
    raw = path.read_bytes()
    place = raw.index("é".encode())
    path.write_bytes(raw[:place] + b"\xff" + raw[place + 1 :])
    lost, kept = read_all(path)
    assert (lost.reason, kept.text) == ("damaged zip member", "two")


def test_members_in_order(tmp_path: Path) -> None:
    path = archive_of(
        tmp_path / "a.zip",
        {
            "z.txt": b"one\n\ntwo",
            "deep/": b"",
            "deep/a.txt": b"caf\xe9",
            "read.me": b"no",
            "empty.txt": b"",
        },
    )
    assert read_all(path) == [
        Document("one\n\ntwo", "a.zip/z.txt", 0),
        Rejected("not UTF-8", "a.zip/deep/a.txt", 3, "\\xe9"),
    ]
    *told, untold = read_all(path, document="paragraph", encoding="detect")
    assert told == [
        Document("one\n", "a.zip/z.txt", 0),
        Document("two", "a.zip/z.txt", 5),
    ]
    assert untold.reason == "encoding cannot be told"
    assert read_all(path, members="deep/*", encoding="latin-1") == [
        Document("café", "a.zip/deep/a.txt", 0)
    ]


def test_damaged_and_encrypted_members(tmp_path: Path) -> None:
    words = b"words " * 50
    path = archive_of(tmp_path / "a.zip", {"a.txt": words, "b.txt": words})
    raw = bytearray(path.read_bytes())
    first = raw.index(b"a.txt") + len(b"a.txt")
    raw[first + 2] ^= 0xFF  # within the compressed bytes
    flags = raw.rindex(b"PK\x01\x02") + 8  # of the second entry of the directory
    raw[flags] |= 1
    path.write_bytes(raw)
    found = read_all(path)
    assert [(item.reason, item.source) for item in found] == [
        ("damaged zip member", "a.zip/a.txt"),
        ("encrypted zip member", "a.zip/b.txt"),
    ]


def test_no_archive_and_no_such_member(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.zip", {"a.txt": b"text"})
    with pytest.raises(BrokenFile) as caught:
        read_all(path, members="*.csv")
    assert caught.value.damage[-1].reason == "no member matches '*.csv'"
    whole = path.read_bytes()
    for raw in (b"", b"plain text", whole[:-30]):
        path.write_bytes(raw)
        with pytest.raises(BrokenFile) as caught:
            read_all(path)
        assert caught.value.damage[-1].reason == "not a zip archive"
