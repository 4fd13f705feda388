"""Each record of a web archive has one outcome; a broken archive stops where it is."""

import gzip
from pathlib import Path

import pytest

from configs.sources import WarcSource
from pipeline.documents import Document, Filtered, Rejected
from pipeline.readers.files import BrokenFile
from pipeline.readers.warc import read
from pipeline.spans import SourceFile, Span


def record(kind: str, block: bytes, *, end: bytes = b"\r\n\r\n") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nX: a:b\r\ncontent-length: {len(block)}\r\n"
    )
    return head.encode() + b"\r\n" + block + end


def response(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n\r\n"
    return record("response", head.encode() + body)


RECORDS = [
    record("warcinfo", b"software: x\r\n"),
    record("conversion", "naïve\nWARC/1.0\r\n\r\n".encode()),
    record("conversion", b"caf\xe9"),
    record("request", b"GET / HTTP/1.1\r\n\r\n"),
    response("200 OK", "text/html; charset=latin-1", b"<p>caf\xe9<p>noir"),
    response("404 Not Found", "text/html", b"<p>gone"),
    response("200 OK", "image/png", bytes(range(256))),
    response("200 OK", "text/html; charset=utf-8", b"caf\xe9"),
    record("response", b"no HTTP at all"),
    record("odd kind", b""),
]
OFFSETS = [sum(map(len, RECORDS[:number])) for number in range(len(RECORDS))]
EXPECTED = [
    Filtered("WARC record: warcinfo", "a", OFFSETS[0]),
    Document("naïve\nWARC/1.0\r\n\r\n", "a", OFFSETS[1]),
    Rejected("not UTF-8", "a", OFFSETS[2] + 3, "\\xe9"),
    Filtered("WARC record: request", "a", OFFSETS[3]),
    Document("café\nnoir", "a", OFFSETS[4]),
    Filtered("web page: HTTP status is not success", "a", OFFSETS[5]),
    Filtered("web page: neither HTML nor text", "a", OFFSETS[6]),
    Rejected("not UTF-8", "a", OFFSETS[7] + 3, "\\xe9"),
    Rejected("not an HTTP response", "a", OFFSETS[8], "no HTTP at all"),
    Filtered("WARC record: unknown", "a", OFFSETS[9]),
]


def read_all(path: Path, raw: bytes):
    path.write_bytes(raw)
    return read(Span(SourceFile.at(path, "a"), 0, len(raw)), WarcSource(path="*"))


def test_outcome_of_every_record(tmp_path: Path) -> None:
    assert list(read_all(tmp_path / "a.warc", b"".join(RECORDS))) == EXPECTED
    members = b"".join(map(gzip.compress, RECORDS))
    assert list(read_all(tmp_path / "a.warc.gz", members)) == EXPECTED


def test_some_writers_end_lines_with_a_newline(tmp_path: Path) -> None:
    raw = b"WARC/1.1\nWARC-Type:conversion\nContent-Length:4\n\ntext\n\n"
    (document,) = read_all(tmp_path / "a.wet", raw)
    assert document.text == "text"


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (record("conversion", b"text")[:-6], "truncated WARC record"),
        (b"WARC/1.0\r\nWARC-Type: conversion", "truncated WARC record"),
        (b"garbage\r\n", "not a WARC record"),
        (b"WARC/1.0\r\nWARC-Type: x\r\n\r\n", "WARC record without a length"),
        (b"WARC/1.0\r\nContent-Length: -1\r\n\r\n", "WARC record without a length"),
        (b"WARC/1.0\r\nContent-Length: 9999999999999999\r\n\r\n", "truncated WARC r"),
    ],
)
def test_damage(tmp_path: Path, tail: bytes, reason: str) -> None:
    found = []
    with pytest.raises(BrokenFile) as caught:
        found.extend(read_all(tmp_path / "a.warc", RECORDS[1] + tail))
    assert [item.text for item in found] == [EXPECTED[1].text]
    assert caught.value.reason.startswith(reason)
    assert caught.value.offset == len(RECORDS[1])
