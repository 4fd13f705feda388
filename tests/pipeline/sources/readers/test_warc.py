"""Each record of a web archive has one outcome; a broken archive stops where it is."""

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from transbeam.configs.schema.sources import WarcSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Filtered,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.readers.warc import read


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
    return read(Span(SourceFile.at(path, "a"), 0, len(raw)), WarcSourceConfig(path="*"))


def test_outcome_of_every_record(tmp_path: Path) -> None:
    assert list(read_all(tmp_path / "a.warc", b"".join(RECORDS))) == EXPECTED
    members = b"".join(map(gzip.compress, RECORDS))
    assert list(read_all(tmp_path / "a.warc.gz", members)) == EXPECTED


def test_some_writers_end_lines_with_a_newline(tmp_path: Path) -> None:
    raw = b"WARC/1.1\nWARC-Type:conversion\nContent-Length:4\n\ntext\n\n"
    (document,) = read_all(tmp_path / "a.wet", raw)
    assert document.text == "text"


@pytest.mark.parametrize(
    "tail",
    [
        record("conversion", b"text")[:-6],
        b"WARC/1.0\r\nWARC-Type: conversion",
        b"WARC/1.0\r\nContent-Length: 9999999999999999\r\n\r\n",
    ],
)
def test_cut_short(tmp_path: Path, tail: bytes) -> None:
    found = []
    with pytest.raises(BrokenFile) as caught:
        found.extend(read_all(tmp_path / "a.warc", RECORDS[1] + tail))
    assert [item.text for item in found] == [EXPECTED[1].text]
    (damage,) = caught.value.damage
    told = ("truncated WARC record", len(RECORDS[1]), True)
    assert (damage.reason, damage.offset, damage.doubtful) == told


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b"garbage\r\n\r\n", "not a WARC record"),
        (b"WARC/1.0\r\nWARC-Type: x\r\n\r\n", "WARC record without a length"),
        (b"WARC/1.0\r\nContent-Length: -1\r\n\r\n", "WARC record without a length"),
        (b"WARC/1.0\r\nWARC-Type: conversion\r\n", "torn WARC record"),
        (
            record("conversion", b"a longer text").replace(
                b"-length: 13", b"-length: 7"
            ),
            "WARC record of another length than it says",
        ),
        (
            record("conversion", b"text").replace(b"-length: 4", b"-length: 90"),
            "WARC record of another length than it says",
        ),
    ],
)
def test_reading_goes_on_with_the_next_record(
    tmp_path: Path, damaged: bytes, reason: str
) -> None:
    records = [RECORDS[1], damaged, record("conversion", b"next"), RECORDS[0]]
    found = list(read_all(tmp_path / "a.warc", b"".join(records)))
    assert [getattr(item, "text", item) for item in (found[0], found[2])] == [
        EXPECTED[1].text,
        "next",
    ]
    entry = found[1]
    assert isinstance(entry, Rejected)
    place = (reason, len(RECORDS[1]), len(damaged))
    assert (entry.reason, entry.offset, entry.unread) == place
    assert len(found) == 4


def test_a_damaged_member_is_left_out_and_the_next_ones_are_read(tmp_path) -> None:
    texts = [f"page {n} " * n for n in range(40)]
    members = [
        bytearray(gzip.compress(record("conversion", text.encode()))) for text in texts
    ]
    for number in (7, 30):
        members[number][len(members[number]) // 2] ^= 0x40
    found = []
    with pytest.raises(BrokenFile) as caught:
        found.extend(read_all(tmp_path / "a.warc.gz", b"".join(members)))
    sound = [text for n, text in enumerate(texts) if n not in (7, 30)]
    assert [item.text for item in found] == sound
    unread = [damage.unread for damage in caught.value.damage]
    assert unread == [len(members[7]), len(members[30])]


def test_members_that_are_no_records_cost_the_records_they_have_a_part_of(
    tmp_path: Path,
) -> None:
    whole = b"".join(record("conversion", f"page {n}".encode() * 20) for n in range(30))
    cuts = [0, 700, 1500, 2300, len(whole)]
    members = [bytearray(gzip.compress(whole[a:b])) for a, b in pairwise(cuts)]
    members[1][-7] ^= 1
    found = []
    with pytest.raises(BrokenFile):
        found.extend(read_all(tmp_path / "a.warc.gz", b"".join(members)))
    pages = [i.text[: len(i.text) // 20] for i in found if isinstance(i, Document)]
    (size,) = {len(record("conversion", b"page 10" * 20))}
    short = len(record("conversion", b"page 1" * 20))
    offsets = [min(n, 10) * short + max(n - 10, 0) * size for n in range(31)]
    lost = [n for n in range(30) if offsets[n] < 1500 and offsets[n + 1] - 4 > 700]
    assert pages == [f"page {n}" for n in range(30) if n not in lost]
    assert 3 < len(lost) < 10
