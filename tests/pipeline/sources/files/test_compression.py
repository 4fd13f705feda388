"""Compressed files: the text of every sound member, and an account of the others."""

import bz2
import gzip
import lzma
import random
import struct
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.documents.document import BrokenFile, Damage, SourceFile
from transbeam.pipeline.sources.files import compression
from transbeam.pipeline.sources.files.file_access import (
    is_compressed,
    open_file,
    source_offset,
)

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstandard"}
LINES = b"".join(b"%d some words that differ\n" % (i * i) for i in range(20_000))


def opened(path: Path):
    return open_file(SourceFile.at(path, path.name))


def read_on(path: Path) -> tuple[bytes, tuple[Damage, ...]]:
    """All text there is, and what was said of the rest."""
    lines: list[bytes] = []
    try:
        with opened(path) as stream:
            lines.extend(stream)
    except BrokenFile as broken:
        return b"".join(lines), broken.damage
    return b"".join(lines), ()


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("suffix", COMPRESS)
@given(members=st.lists(st.binary(max_size=300), max_size=5), size=st.integers(1, 400))
def test_members_one_after_the_other(scratch, suffix, members, size) -> None:
    path = scratch / f"a{suffix}"
    path.write_bytes(b"".join(map(COMPRESS[suffix], members)))
    with opened(path) as stream:
        assert b"".join(iter(lambda: stream.read(size), b"")) == b"".join(members)


@pytest.mark.parametrize("name", ["a{}", "a.jsonl", "a", "a.TXT{}"])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_names_in_capitals_and_without_a_suffix(tmp_path: Path, suffix, name) -> None:
    path = tmp_path / name.format(suffix.upper())
    path.write_bytes(COMPRESS[suffix](LINES))
    assert is_compressed(SourceFile.at(path, path.name))
    with opened(path) as stream:
        assert stream.read() == LINES


def test_text_that_begins_as_bzip2_does_is_no_bzip2(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"BZh91 is a postcode\n")
    with opened(path) as stream:
        assert stream.read() == b"BZh91 is a postcode\n"


@pytest.mark.parametrize("suffix", COMPRESS)
def test_cut_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = COMPRESS[suffix](LINES)
    for kept in (len(whole) - 1, len(whole) * 3 // 4, 10):
        path.write_bytes(whole[:kept])
        text, (damage,) = read_on(path)
        assert LINES.startswith(text)
        # bzip2 packs by 900 kB, xz asks for more before it gives the first.
        assert text or kept == 10 or suffix in (".bz2", ".xz")
        told = (f"truncated {NAMES[suffix]} stream", len(text), True)
        assert (damage.reason, damage.offset, damage.doubtful) == told
        assert damage.unread is not None
        if text:
            assert damage.unread < kept / 2
        else:
            assert damage.unread == kept


@pytest.mark.parametrize(
    ("suffix", "gives_text"),
    # bzip2 and zstandard unpack a block when all of it is there.
    [(".gz", True), (".bz2", False), (".xz", True), (".zst", False)],
)
def test_the_end_that_gives_no_text_is_unread(tmp_path, suffix, gives_text) -> None:
    path = tmp_path / f"a{suffix}"
    first, second = (COMPRESS[suffix](LINES[i : i + 9000]) for i in (0, 9000))
    for rest, unread in (
        (second[:10], 10),
        (second[: len(second) // 2], 0 if gives_text else len(second) // 2),
    ):
        path.write_bytes(first + rest)
        text, (damage,) = read_on(path)
        assert (damage.unread, damage.offset) == (unread, len(text))
        assert (len(text) > 9000) == (unread == 0)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_and_not_compressed_at_all(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = bytearray(COMPRESS[suffix](LINES))
    whole[len(whole) // 2] ^= 0xFF
    sound = COMPRESS[suffix](b"a")
    for raw, text, unread in (
        (bytes(whole), b"", len(whole)),
        (b"plain text\n" * 10, b"", 110),
        (sound + b"something else", b"a", 14),
    ):
        path.write_bytes(raw)
        found, (damage,) = read_on(path)
        assert (found, damage.unread) == (text, unread)
        assert damage.reason == f"damaged {NAMES[suffix]} stream"
        assert damage.detail


@pytest.mark.parametrize("suffix", COMPRESS)
def test_zeros_in_the_place_of_members_are_lost(tmp_path: Path, suffix) -> None:
    path = tmp_path / f"a{suffix}"
    one, two = COMPRESS[suffix](b"one\n"), COMPRESS[suffix](b"two\n")
    reason = "a stretch of zeros in the place of a compressed stream"
    detail = "as in a file not written to its end"
    for zeros, last in ((512, two), (200_000, two), (512, b"")):
        path.write_bytes(one + bytes(zeros) + last)
        text = b"one\ntwo\n" if last else b"one\n"
        assert read_on(path) == (text, (Damage(reason, detail, 4, zeros),))


def test_empty_file_zero_padding_and_skippable_frame(tmp_path: Path) -> None:
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
    for name, raw, text in [
        ("empty.gz", b"", b""),
        ("padded.gz", gzip.compress(b"text") + b"\0" * 500, b"text"),
        ("skippable.zst", skippable + COMPRESS[".zst"](b"text") + skippable, b"text"),
    ]:
        (tmp_path / name).write_bytes(raw)
        with opened(tmp_path / name) as stream:
            assert stream.read() == text


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_damaged_member_is_left_out_and_the_next_ones_are_read(
    tmp_path: Path, suffix: str
) -> None:
    texts = [noise(n, 3_000) + b"\n" for n in range(5)]
    members = [bytearray(COMPRESS[suffix](text)) for text in texts]
    members[1][len(members[1]) // 2] ^= 0x10
    members[3][12] ^= 0xFF
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"".join(members))
    text, damage = read_on(path)
    assert text == texts[0] + texts[2] + texts[4]
    assert [d.reason for d in damage] == [f"damaged {NAMES[suffix]} stream"] * 2
    assert [d.unread for d in damage] == [len(members[1]), len(members[3])]
    assert [d.offset for d in damage] == [len(texts[0]), len(texts[0] + texts[2])]
    assert not any(d.doubtful for d in damage)


def test_a_wrong_checksum_alone_leaves_the_member_out(tmp_path: Path) -> None:
    members = [bytearray(gzip.compress(text)) for text in (b"one\n", b"two\n", b"3\n")]
    members[1][-8] ^= 1
    (tmp_path / "a.gz").write_bytes(b"".join(members))
    text, (damage,) = read_on(tmp_path / "a.gz")
    assert (text, damage.unread) == (b"one\n3\n", len(members[1]))


def test_what_looks_like_a_member_is_none(tmp_path: Path) -> None:
    # The beginning of a member, as bytes of a damaged one.
    first = bytearray(gzip.compress(b"\x1f\x8b\x08\x00" * 3 + noise(1, 500), 0))
    first[-6] ^= 1
    (tmp_path / "a.gz").write_bytes(bytes(first) + gzip.compress(b"text"))
    text, (damage,) = read_on(tmp_path / "a.gz")
    assert (text, damage.unread) == (b"text", len(first))


def test_text_that_cannot_wait_for_its_checksum_is_in_doubt(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(compression, "_WAITING_BYTES", 100_000)
    first = bytearray(gzip.compress(noise(1, 300_000)))
    first[-8] ^= 1
    (tmp_path / "a.gz").write_bytes(bytes(first) + gzip.compress(b"text"))
    text, (damage,) = read_on(tmp_path / "a.gz")
    assert text.endswith(b"text")
    assert damage.doubtful
    assert 100_000 < damage.offset <= 300_000


def test_blocks_of_bzip2_have_checksums_of_their_own(tmp_path: Path) -> None:
    text = noise(1, 4_000_000)
    raw = bytearray(bz2.compress(text))
    raw[len(raw) * 7 // 10] ^= 0xFF
    (tmp_path / "a.bz2").write_bytes(raw)
    found, (damage,) = read_on(tmp_path / "a.bz2")
    assert text.startswith(found)
    assert not damage.doubtful
    assert 1_500_000 < len(found) < 2_800_000
    assert damage.unread == pytest.approx(len(raw) * (1 - len(found) / 4e6), rel=0.1)


def test_how_far_in_the_file_a_place_in_the_text_is(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(noise(1, 1_000_000)) + gzip.compress(b"x" * 10**6))
    size = path.stat().st_size
    with opened(path) as stream:
        for share in (0.25, 0.5, 0.75):
            stream.read(250_000)
            found = source_offset(stream)
            assert found == pytest.approx(1_000_000 * share, abs=70_000)
        stream.read()
        assert source_offset(stream) == size
