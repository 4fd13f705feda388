"""Compressed files that are cut short, or have a damaged stream."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import zstandard

from tests.pipeline.accounting.damaged_corpora.corpus import (
    DAMAGED,
    TORN,
    WHOLE,
    DamagedCorpus,
    flipped,
    json_lines,
)

STREAMS = (
    ("gzip", ".gz", gzip.compress),
    ("bzip2", ".bz2", bz2.compress),
    ("xz", ".xz", lzma.compress),
)


def damaged_streams() -> list[DamagedCorpus]:
    return [
        cut_stream("gzip", ".gz", gzip.compress, lambda: zlib.decompressobj(31)),
        cut_stream("xz", ".xz", lzma.compress, lzma.LZMADecompressor),
        cut_frame(),
        *(flipped_stream(*kind) for kind in STREAMS),
    ]


def cut_stream(
    name: str, ending: str, pack: Callable[[bytes], bytes], unpacker: Callable[[], Any]
) -> DamagedCorpus:
    """Half of a stream: all that can be unpacked is read but for the torn line."""
    packed = pack(json_lines(DAMAGED))
    half = packed[: len(packed) // 2]
    lines = unpacker().decompress(half).split(b"\n")
    assert len(lines) > 10
    assert lines[-1]
    return DamagedCorpus(
        f"JSON lines, {name} cut short",
        "jsonl",
        f".jsonl{ending}",
        pack(json_lines(WHOLE)),
        half,
        used=300 + len(lines) - 1,
        quarantined={TORN: 1, f"truncated {name} stream": 1},
        codes=(2, 2, 0),
    )


def cut_frame() -> DamagedCorpus:
    """One of two frames, and the beginning of the other."""
    pack = zstandard.ZstdCompressor().compress
    frames = [pack(json_lines(DAMAGED[i : i + 150])) for i in (0, 150)]
    return DamagedCorpus(
        "JSON lines, zstandard cut short",
        "jsonl",
        ".jsonl.zst",
        pack(json_lines(WHOLE)),
        frames[0] + frames[1][:50],
        used=450,
        quarantined={"truncated zstandard stream": 1},
        unread=50,
        codes=(2, 2, 0),
    )


def flipped_stream(
    name: str, ending: str, pack: Callable[[bytes], bytes]
) -> DamagedCorpus:
    """One of five streams is damaged."""
    packed = [pack(json_lines(DAMAGED[i : i + 60])) for i in range(0, 300, 60)]
    packed[2] = flipped(packed[2])
    return DamagedCorpus(
        f"JSON lines, one of five {name} streams flipped",
        "jsonl",
        f".jsonl{ending}",
        pack(json_lines(WHOLE)),
        b"".join(packed),
        used=540,
        quarantined={f"damaged {name} stream": 1},
        unread=len(packed[2]),
        codes=(2, 0, 0),
    )
