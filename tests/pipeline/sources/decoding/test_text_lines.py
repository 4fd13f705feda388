"""Every line belongs to one span and comes with its place, in any encoding."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.encodings import line_end
from transbeam.pipeline.documents.document import SourceFile, Span
from transbeam.pipeline.sources.decoding.text_decoding import lines, raw_lines

# U+0A0A and U+010A hold the byte of a newline; U+2028 is a line end to `splitlines`.
characters = st.sampled_from("aé\u0a0a\u010a\u2028\U0001f600\r\n")


def whole(path: Path) -> Span:
    file = SourceFile.at(path, path.name)
    return Span(file, 0, file.size)


@given(
    st.text(characters, max_size=30),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
    st.integers(1, 20),
)
def test_spans_tear_no_line(text, encoding, step):
    raw = text.encode(encoding)
    newline = line_end(encoding)
    found = []
    for start in range(0, len(raw), step):
        for offset, line in raw_lines(io.BytesIO(raw), start, newline):
            if offset < start + step:
                assert raw[offset : offset + len(line)] == line
                found.append(line.decode(encoding))
    assert all("\n" not in line[:-1] for line in found)
    assert "".join(found) == text


def test_undecodable_line_is_the_only_one_lost(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ncaf\xe9\nthree")
    one, two, three = lines(whole(tmp_path / "a.txt"), "utf-8")
    assert (one.offset, one.content, one.rejected) == (0, "one", None)
    assert (three.offset, three.text, three.rejected) == (10, "three", None)
    assert two.text == "caf\\xe9\n"
    assert two.rejected is not None
    assert (two.rejected.reason, two.rejected.offset) == ("not UTF-8", 8)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_byte_order_mark_and_encoding(tmp_path, encoding):
    mark = "\ufeff" if encoding == "utf-8" else ""
    (tmp_path / "a.txt").write_bytes((mark + "größe\nzwei\n").encode(encoding))
    found = [line.content for line in lines(whole(tmp_path / "a.txt"), encoding)]
    assert found == ["größe", "zwei"]


def test_compressed_file_larger_inside_than_outside(tmp_path):
    text = "the same line\n" * 1000
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    found = lines(whole(tmp_path / "a.txt.gz"), "utf-8")
    assert "".join(line.text for line in found) == text
