"""Archives with a damaged member, record or page."""

import gzip
import io
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from tests.pipeline.accounting.damaged_corpora.corpus import (
    DAMAGED,
    WHOLE,
    DamagedCorpus,
    flipped,
    json_lines,
)


def damaged_archives() -> list[DamagedCorpus]:
    return [
        flipped_page(),
        flipped_member_of_an_archive(),
        flipped_record(),
        no_records(),
        broken_page(),
    ]


def flipped_page() -> DamagedCorpus:
    """One of the pages of an archive of the web, each a member of its own."""

    def page(text: str) -> bytes:
        head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(text)}\r\n"
        return gzip.compress(f"{head}\r\n{text}\r\n\r\n".encode())

    pages = [page(row) for row in DAMAGED]
    pages[7] = flipped(pages[7])
    return DamagedCorpus(
        "WARC, one of 300 gzip members flipped",
        "warc",
        ".warc.gz",
        b"".join(map(page, WHOLE)),
        b"".join(pages),
        used=599,
        quarantined={"damaged gzip stream": 1},
        unread=len(pages[7]),
    )


def flipped_member_of_an_archive() -> DamagedCorpus:
    """One of three texts of a zip archive."""

    def archive(rows: Sequence[str]) -> bytes:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as packed:
            for i in range(0, 300, 100):
                last = None if i == 200 else i + 100
                packed.writestr(f"{i}.txt", "\n".join(rows[i:last]))
        return sink.getvalue()

    raw = bytearray(archive(DAMAGED))
    member = zipfile.ZipFile(io.BytesIO(raw)).getinfo("100.txt")
    raw[member.header_offset + member.compress_size // 2] ^= 0x20
    return DamagedCorpus(
        "zip, one of three members flipped",
        "zip, document: line",
        ".zip",
        archive(WHOLE),
        bytes(raw),
        used=500,
        quarantined={"damaged zip member": 1},
        unread=member.compress_size,
        codes=(2, 0, 0),
    )


def flipped_record() -> DamagedCorpus:
    """One of the records of a TFRecord file."""

    def example(row: str) -> bytes:
        text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row.encode()]))
        features = tf.train.Features(feature={"text": text})
        return tf.train.Example(features=features).SerializeToString()

    def tfrecords(rows: Sequence[str]) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            with tf.io.TFRecordWriter(file.name) as writer:
                for row in rows:
                    writer.write(example(row))
            return Path(file.name).read_bytes()

    record = example(DAMAGED[7])
    raw = tfrecords(DAMAGED)
    return DamagedCorpus(
        "TFRecord, one of 300 records flipped",
        "tfrecord",
        ".tfrecord",
        tfrecords(WHOLE),
        raw.replace(record, flipped(record)),
        used=599,
        quarantined={"damaged record": 1},
        unread=len(record),
    )


def no_records() -> DamagedCorpus:
    """No TFRecord file at all."""
    raw = json_lines(DAMAGED)
    return replace(
        flipped_record(),
        name="TFRecord, but JSON lines",
        damaged=raw,
        used=300,
        quarantined={"damaged TFRecord file": 1},
        unread=len(raw),
        codes=(2, 0, 0),
    )


def broken_page() -> DamagedCorpus:
    """A page of a dump that is no XML."""

    def dump(rows: Sequence[str]) -> list[str]:
        return [
            f"<page>\n<id>{n}</id>\n<revision><text>{row}</text></revision>\n</page>\n"
            for n, row in enumerate(rows, start=1)
        ]

    def wiki(pages: Sequence[str]) -> bytes:
        return f"<mediawiki>\n{''.join(pages)}</mediawiki>\n".encode()

    pages = dump(DAMAGED)
    pages[7] = pages[7].replace("of", "&of", 1)
    return DamagedCorpus(
        "Wikipedia, one of 300 pages no XML",
        "wikipedia",
        ".xml",
        wiki(dump(WHOLE)),
        wiki(pages),
        used=599,
        quarantined={"damaged XML": 1},
        # From the damaged line on.
        unread=len(pages[7]) - pages[7].index("<revision>"),
    )
