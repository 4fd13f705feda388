"""Line pairs: line i of one file goes with line i of the other, or it is said."""

import gzip

import pytest

from tests.pipeline.sources.readers.read_one_file import notes_while
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.table_sources import ParallelSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span
from transbeam.pipeline.sources.corpus_files import corpus_fingerprint, list_files
from transbeam.pipeline.sources.readers import parallel


def read(source: ParallelSourceConfig) -> list[Document | Rejected]:
    return [
        item
        for file in parallel.list_files(source)
        for item in parallel.read(Span(file, 0, file.size), source)
    ]


@pytest.fixture
def source(tmp_path):
    return ParallelSourceConfig(
        path=f"{tmp_path}/*.en", target_path=f"{tmp_path}/*.de*"
    )


def test_files_pair_up_by_name(tmp_path, source):
    (tmp_path / "b.en").write_text("three\n")
    (tmp_path / "a.en").write_text("one\r\ntwo")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (tmp_path / "b.de").write_text("drei\n")
    assert read(source) == [
        Document("one", "a.en", 1, target_text="eins"),
        Document("two", "a.en", 2, target_text="zwei"),
        Document("three", "b.en", 1, target_text="drei"),
    ]


def test_nothing_shifts_the_pairs(tmp_path, source):
    (tmp_path / "a.en").write_bytes("one\n\nthree\nfour\u2028\nfive\n\n".encode())
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n \ncaf\xe9\nf\xc3\xbcnf\n\n")
    assert read(source) == [
        Document("one", "a.en", 1, target_text="eins"),
        Document("", "a.en", 2, target_text="zwei"),
        Rejected("no target", "a.en", 3, "three"),
        Rejected("not UTF-8", "a.de", 4, "\\xe9\n"),
        Document("five", "a.en", 5, target_text="fünf"),
        Document("", "a.en", 6),
    ]


@pytest.mark.parametrize(("english", "german"), [(3, 5), (5, 3), (0, 1)])
def test_one_file_is_longer(tmp_path, source, english, german):
    (tmp_path / "a.en").write_text("line\n" * english)
    (tmp_path / "a.de").write_text("Zeile\n" * german)
    with pytest.raises(DataError, match=rf"a.en has {english} lines and .* {german}:"):
        read(source)


def test_a_file_without_partner(tmp_path, source):
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "b.en").write_text("two\n")
    (tmp_path / "a.de").write_text("eins\n")
    with pytest.raises(DataError, match=r"matches 2 files and .* 1: they pair up"):
        read(source)


def test_pairs_that_names_say_are_shifted(tmp_path, source):
    for number in range(3):
        (tmp_path / f"news-0{number}.en").write_text("one\n")
        (tmp_path / f"news-0{number + 1}.de.gz").write_bytes(gzip.compress(b"eins\n"))
    with pytest.raises(DataError) as told:
        read(source)
    assert "news-01.en would go with news-02.de.gz, but there is news-01.de.gz" in str(
        told.value
    )


@pytest.mark.parametrize("names", [("train", "tune"), ("en/1.x", "en/2.x")])
def test_names_that_tell_nothing_pair_up_sorted(tmp_path, names):
    for side, name in zip("ab", names, strict=True):
        for folder, text in (("from", "one\n"), ("to", "eins\n")):
            path = tmp_path / folder / f"{name}{side if folder == 'to' else ''}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    globs = {"path": f"{tmp_path}/from/**/*", "target_path": f"{tmp_path}/to/**/*"}
    assert len(read(ParallelSourceConfig(**globs))) == 2


def test_the_fingerprint_sees_both_sides(tmp_path, source):
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "a.de").write_text("eins\n")
    before = corpus_fingerprint(list_files(source))
    (tmp_path / "a.de").write_text("zwei!\n")
    assert corpus_fingerprint(list_files(source)) != before


def test_markup_is_noted(tmp_path, source):
    segments = [f'<seg id="{n}">Line {n}.</seg>' for n in range(5)]
    (tmp_path / "a.en").write_text("\n".join(["<doc>", "<p>", *segments, "</doc>"]))
    (tmp_path / "a.de").write_text("1 < 2, <b>fett</b> und mehr\n" * 8)
    (((kind, file, detail), times),) = notes_while(lambda: read(source)).items()
    assert (kind, file, times) == ("markup", "a.en", 1)
    assert "8 of 8 lines are tags" in detail
