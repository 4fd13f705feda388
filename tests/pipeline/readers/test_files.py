"""Files open alike whether compressed or not, here or elsewhere; damage is told."""

import bz2
import gzip
import struct
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import DataError
from pipeline.readers.files import BrokenFile, matching_files, open_file
from pipeline.spans import SourceFile

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
NAMES = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstandard"}
LINES = b"".join(b"%d some words that differ\n" % (i * i) for i in range(20_000))


def opened(path: Path):
    return open_file(SourceFile.at(path, path.name))


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


@pytest.mark.parametrize("suffix", COMPRESS)
def test_cut_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = COMPRESS[suffix](LINES)
    for kept in (len(whole) - 1, len(whole) * 3 // 4, 10):
        path.write_bytes(whole[:kept])
        lines: list[bytes] = []
        with opened(path) as stream, pytest.raises(BrokenFile) as caught:
            lines.extend(stream)
        read = b"".join(lines)
        assert caught.value.reason == f"truncated {NAMES[suffix]} stream"
        assert LINES.startswith(read)
        assert read or kept == 10 or suffix == ".bz2"  # bzip2 packs by 900 kB
        assert len(read) <= caught.value.offset < len(read) + 50


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_and_not_compressed_at_all(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = bytearray(COMPRESS[suffix](LINES))
    whole[len(whole) // 2] ^= 0xFF
    for raw in (bytes(whole), b"plain text\n" * 10, COMPRESS[suffix](b"a") + b"rest"):
        path.write_bytes(raw)
        with opened(path) as stream, pytest.raises(BrokenFile) as caught:
            stream.read()
        assert caught.value.reason.endswith(f"{NAMES[suffix]} stream")
        assert caught.value.detail


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


def test_globs_and_names(tmp_path: Path, monkeypatch) -> None:
    for name in ("a.txt", "deep/b.txt", "deep/er/c.txt", "d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def names(pattern: str) -> list[str]:
        return sorted(file.name for file in matching_files(pattern))

    assert names(f"{tmp_path}/**/*.txt") == ["a.txt", "deep/b.txt", "deep/er/c.txt"]
    assert names(f"file://{tmp_path}/d*") == ["d.md"]
    assert names(f"{tmp_path}/deep/*/c.txt") == ["er/c.txt"]
    monkeypatch.chdir(tmp_path)
    assert names("./deep/b.txt") == names("deep//*.txt") == ["b.txt"]
    (file,) = matching_files("a.txt")
    assert (file.path, file.size) == (f"{tmp_path}/a.txt", 5)


def test_link_to_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(DataError, match=r"cannot be listed: .* No such file"):
        matching_files(f"{tmp_path}/*.txt")
