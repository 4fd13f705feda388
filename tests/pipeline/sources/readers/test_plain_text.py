"""Reading in spans gives every document once, wherever the cuts fall."""

import bz2
import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.readers.plain_text import read
from transbeam.pipeline.sources.work_units import plan_units, read_unit


def read_all(path: Path, document: str, encoding: str = "utf-8", step: int = 10**9):
    file = SourceFile.at(path, path.name)
    source = TextSourceConfig(path=str(path), document=document, encoding=encoding)
    for start in range(0, max(file.size, 1), step):
        yield from read(Span(file, start, min(start + step, file.size)), source)


def read_whole(path: Path, document: str, step: int) -> list[tuple[int, str]]:
    found = read_all(path, document, step=step)
    return [(item.offset, item.text) for item in found]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("plain") / "text.txt"


lines = st.lists(
    st.sampled_from(["", " ", "a", "b c", "ünïcödé", "\r", "  indented", "x" * 40]),
    max_size=20,
)


@given(lines, st.booleans(), st.integers(1, 60))
def test_spans_tear_nothing(scratch: Path, lines, final_newline, step) -> None:
    scratch.write_bytes(("\n".join(lines) + "\n" * final_newline).encode())
    for document in ("line", "paragraph"):
        whole = read_whole(scratch, document, step=10**9)
        assert read_whole(scratch, document, step) == whole


def test_paragraphs_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n\n \r\n\nthree\n\nfour")
    assert read_whole(path, "paragraph", 100) == [
        (0, "one\ntwo\n"),
        (13, "three\n"),
        (20, "four"),
    ]


def test_lines_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\n\n  two\nthree")
    lines = [(0, "one\r\n"), (6, "  two\n"), (12, "three")]
    assert read_whole(path, "line", 100) == lines


def test_undecodable_and_binary_are_rejected_where_they_break(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\ncaf\xe9 noir\n\x00\xff\nfine too\n")
    assert list(read_all(path, "line")) == [
        Document("fine\n", "a.txt", 0),
        Rejected("not UTF-8", "a.txt", 8, "\\xe9 noir\n"),
        Rejected("binary", "a.txt", 16, "\\xff\n"),
        Document("fine too\n", "a.txt", 18),
    ]


def test_units_cut_large_files_and_join_small_ones(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("a line\n" * 100)
    for name in "bcd":
        (tmp_path / f"small-{name}.txt").write_text("tiny\n")
    source = TextSourceConfig(path=str(tmp_path / "*.txt"), document="line")
    files = list_files(source)
    units = plan_units(files, source, unit_bytes=300)
    assert [unit.size for unit in units] == [300, 300, 115]
    texts = [item.text for unit in units for item in read_unit(unit, source)]
    assert texts == ["a line\n"] * 100 + ["tiny\n"] * 3
    whole = plan_units(
        files, TextSourceConfig(path="", document="file"), unit_bytes=300
    )
    assert [unit.size for unit in whole] == [700, 15]


def test_missing_and_empty_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches .*\*\.txt"):
        list_files(TextSourceConfig(path=str(tmp_path / "*.txt")))
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"all 1 files .* are empty"):
        list_files(TextSourceConfig(path=str(tmp_path / "*.txt")))


def test_file_that_changes_during_the_job(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before\n")
    source = TextSourceConfig(path=str(path))
    (unit,) = plan_units(list_files(source), source, 100)
    path.write_text("before and after\n")
    with pytest.raises(DataError, match=r"7 bytes when listed, 17 now"):
        list(read_unit(unit, source))


def test_names_start_below_the_fixed_part(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text("x")
    source = TextSourceConfig(path=f"{tmp_path}/**/*.txt")
    assert [file.name for file in list_files(source)] == ["deep/a.txt"]


characters = st.sampled_from("ab \n\r\u0a0a\u0a00\u000a\u2000\u010a\U00010a0aé")


@given(st.text(characters, max_size=60), st.sampled_from(["utf-16", "utf-32"]))
def test_lines_of_wide_characters_are_those_of_the_text(scratch, text, encoding):
    for codec in (encoding, f"{encoding}-le", f"{encoding}-be"):
        scratch.write_bytes(text.encode(codec))
        lines = [item.text for item in read_all(scratch, "line", codec)]
        assert lines == [
            line for line in re.findall(r"[^\n]*\n|[^\n]+$", text) if line.strip()
        ]


def test_damage_in_wide_characters_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    half = b"\x00\xd8"  # of a surrogate pair, little-endian
    path.write_bytes("one\n".encode("utf-16-le") + half + "\ntwo".encode("utf-16-le"))
    found = list(read_all(path, "line", "utf-16-le"))
    assert [type(item) for item in found] == [Document, Rejected, Document]
    assert (found[1].reason, found[1].offset) == ("not UTF-16-LE", 8)
    assert found[2] == Document("two", "a.txt", 12)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "latin-1"])
@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
def test_declared_and_detected_encodings_read_alike(tmp_path, encoding, document):
    path = tmp_path / "a.txt"
    first = "Les garçons ont déjà été à la forêt; où êtes-vous allés après ?\n"
    second = "Nous n'avons rien vu, c'était trop tôt pour les élèves.\n"
    third = "Ils se sont levés très tard, à la fin de l'été.\n"
    text = f"{first}\n{second}{third}"
    path.write_bytes(text.encode(encoding))
    expected = {
        "line": [first, second, third],
        "paragraph": [first, second + third],
        "file": [text],
    }[document]
    assert [item.text for item in read_all(path, document, encoding)] == expected
    assert [item.text for item in read_all(path, document, "detect")] == expected


def test_very_long_line_and_nul(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 1_000_000 + b"\nnul\0nul\n")
    long, nul = read_all(path, "line")
    assert (len(long.text), nul) == (
        1_000_001,
        Document("nul\0nul\n", "a.txt", 1_000_001),
    )


@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
def test_what_was_never_written_is_no_text(tmp_path: Path, document) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"whole\n\nbegun" + bytes(5000))
    *kept, lost = read_all(path, document)
    assert [item.text.strip() for item in kept] == ["whole"] * (document != "file")
    assert (lost.reason, lost.size) == (
        "a stretch of NUL bytes",
        5012 if document == "file" else 5005,
    )


def test_wide_characters_read_as_narrow_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("The tower is tall.", "Башня высока."):
        for codec in ("utf-16-le", "utf-16-be", "utf-32-le"):
            path.write_bytes(text.encode(codec))
            (entry,) = read_all(path, "line")
            assert entry.reason == "binary"
            assert "write data.source.encoding: utf-16, or detect" in entry.excerpt


@pytest.mark.parametrize("document", ["line", "paragraph"])
def test_carriage_returns_alone_are_refused(tmp_path: Path, document) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\rtwo\r\rthree\r")
    with pytest.raises(BrokenFile, match=r"returns alone.*line feeds: tr") as broken:
        list(read_all(path, document))
    assert [damage.unread for damage in broken.value.damage] == [15]
    path.write_bytes(b"40%\r50%\rdone\n")
    (kept,) = read_all(path, document)
    assert kept.text == "40%\r50%\rdone\n"


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_compressed_file_is_one_span(tmp_path: Path, suffix: str) -> None:
    text = b"".join(b"line %d\n" % i for i in range(5000))
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes({".gz": gzip, ".bz2": bz2}[suffix].compress(text))
    source = TextSourceConfig(path=str(path), document="line")
    files = list_files(source)
    (unit,) = plan_units(files, source, unit_bytes=100)
    found = list(read_unit(unit, source))
    assert b"".join(item.text.encode() for item in found) == text
    assert found[-1].offset == text.rindex(b"line")


@pytest.mark.parametrize(
    "name",
    # The first line of the last one says how all others are read.
    [
        *("", "utf-99", "hex", "rot13", "idna", "punycode", "cp037", "undefined"),
        "iso2022_kr",
    ],
)
def test_what_is_no_encoding_of_text_files(name: str) -> None:
    with pytest.raises(ConfigError, match=f"encoding={name!r} is no encoding"):
        TextSourceConfig(path="a", encoding=name)
