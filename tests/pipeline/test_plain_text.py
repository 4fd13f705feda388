"""Reading in spans gives every document once, wherever the cuts fall."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.sources import TextSource
from configs.errors import DataError
from pipeline.documents import Document, Rejected
from pipeline.plain_text import read
from pipeline.sources import list_files, plan_units, read_unit
from pipeline.spans import SourceFile, Span


def read_whole(path: Path, document: str, step: int) -> list[tuple[int, str]]:
    file = SourceFile.at(path, path.name)
    found = []
    for start in range(0, max(file.size, 1), step):
        span = Span(file, start, min(start + step, file.size))
        found += [(item.offset, item.text) for item in read(span, document)]
    return found


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
    file = SourceFile.at(path, "a.txt")
    found = list(read(Span(file, 0, file.size), "line"))
    assert found == [
        Document("fine\n", "a.txt", 0),
        Rejected("not UTF-8", "a.txt", 8, "\\xe9 noir\n"),
        Rejected("binary", "a.txt", 16, "\\xff\n"),
        Document("fine too\n", "a.txt", 18),
    ]


def test_units_cut_large_files_and_join_small_ones(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("a line\n" * 100)
    for name in "bcd":
        (tmp_path / f"small-{name}.txt").write_text("tiny\n")
    source = TextSource(path=str(tmp_path / "*.txt"), document="line")
    files = list_files(source)
    units = plan_units(files, source, unit_bytes=300)
    assert [unit.size for unit in units] == [300, 300, 115]
    texts = [item.text for unit in units for item in read_unit(unit, source)]
    assert texts == ["a line\n"] * 100 + ["tiny\n"] * 3
    whole = plan_units(files, TextSource(path="", document="file"), unit_bytes=300)
    assert [unit.size for unit in whole] == [700, 15]


def test_missing_and_empty_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches .*\*\.txt"):
        list_files(TextSource(path=str(tmp_path / "*.txt")))
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"all 1 files .* are empty"):
        list_files(TextSource(path=str(tmp_path / "*.txt")))


def test_file_that_changes_during_the_job(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before\n")
    source = TextSource(path=str(path))
    (unit,) = plan_units(list_files(source), source, 100)
    path.write_text("before and after\n")
    with pytest.raises(DataError, match=r"7 bytes when listed, 17 now"):
        list(read_unit(unit, source))


def test_names_start_below_the_fixed_part(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text("x")
    source = TextSource(path=f"{tmp_path}/**/*.txt")
    assert [file.name for file in list_files(source)] == ["deep/a.txt"]
