"""A corpus is listed and cut the same everywhere, and nothing of it is read twice."""

import gzip
import io
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from apache_beam.io.filesystem import FileMetadata, FileSystem, MatchResult

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.sources import (
    MixturePartConfig,
    MixtureSourceConfig,
    PythonDocsSourceConfig,
    SingleSource,
    TextSourceConfig,
    ZipSourceConfig,
)
from transbeam.configs.schema.table_sources import (
    CsvSourceConfig,
    JsonlSourceConfig,
    ParallelSourceConfig,
)
from transbeam.pipeline.documents.document import (
    Document,
    Filtered,
    Rejected,
    document_key,
)
from transbeam.pipeline.documents.document_selection import in_validation
from transbeam.pipeline.documents.hash_range import apply_hash_range
from transbeam.pipeline.sources.corpus_files import (
    corpus_fingerprint,
    list_files,
    list_sources,
)
from transbeam.pipeline.sources.files import globs
from transbeam.pipeline.sources.work_units import _READERS, plan_units, read_unit


class ShelfFileSystem(FileSystem):
    """Files of a test, under `shelf://`; those of `locked` cannot be opened."""

    files: dict[str, bytes] = {}

    @classmethod
    def scheme(cls):
        return "shelf"

    def open(self, path, mime_type="", compression_type="auto"):
        assert compression_type == "uncompressed"
        if "locked" in path:
            raise PermissionError(13, "Permission denied")
        return io.BytesIO(self.files[path])

    def _list(self, dir_or_prefix):
        for path in self.files:
            if path.startswith(dir_or_prefix):
                yield self.metadata(path)

    def metadata(self, path):
        return FileMetadata(path, len(self.files[path]), 1.5)

    def has_dirs(self):
        return False

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def join(self, basepath, *paths):
        raise NotImplementedError

    def mkdirs(self, path):
        raise NotImplementedError

    def create(self, path, mime_type="", compression_type="auto"):
        raise NotImplementedError

    def copy(self, source_file_names, destination_file_names):
        raise NotImplementedError

    def rename(self, source_file_names, destination_file_names):
        raise NotImplementedError

    def exists(self, path):
        raise NotImplementedError

    def size(self, path):
        raise NotImplementedError

    def last_updated(self, path):
        raise NotImplementedError

    def checksum(self, path):
        raise NotImplementedError

    def delete(self, paths):
        raise NotImplementedError


@pytest.fixture
def shelf(monkeypatch) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    monkeypatch.setattr(ShelfFileSystem, "files", files)
    return files


def read_all(source, unit_bytes: int = 10**6):
    units = plan_units(list_files(source), source, unit_bytes)
    return [item for unit in units for item in read_unit(unit, source)]


def test_file_system_of_beam(shelf) -> None:
    shelf["shelf://top/a/1.txt"] = b"one\ntwo\nthree\n"
    shelf["shelf://top/b/2.txt.gz"] = gzip.compress(b"four\n")
    shelf["shelf://top/b/3.md"] = b"five\n"
    source = TextSourceConfig(path="shelf://top/*/*.txt*", document="line")
    files = list_files(source)
    assert [(file.name, file.modified) for file in files] == [
        ("a/1.txt", 1_500_000_000),
        ("b/2.txt.gz", 1_500_000_000),
    ]
    assert len(plan_units(files, source, unit_bytes=5)) == 3
    texts = [item.text for item in read_all(source, unit_bytes=5)]
    assert texts == ["one\n", "two\n", "three\n", "four\n"]


def test_unreadable_and_changed_file_elsewhere(shelf) -> None:
    shelf["shelf://top/locked.txt"] = b"one\n"
    source = TextSourceConfig(path="shelf://top/*.txt")
    with pytest.raises(DataError, match=r"locked.txt: cannot be read: Permission den"):
        read_all(source)
    (unit,) = plan_units(list_files(source), source, 100)
    shelf["shelf://top/locked.txt"] += b"two\n"
    with pytest.raises(DataError, match="4 bytes when listed, 8 now"):
        list(read_unit(unit, source))


def test_order_of_listing_does_not_show(tmp_path: Path, monkeypatch) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text("words of a line\n" * number)
    source = TextSourceConfig(path=f"{tmp_path}/*.txt", document="line")
    files = list_files(source)
    units = plan_units(files, source, unit_bytes=500)
    listed = globs.glob.glob

    def shuffled(*args, **keys):
        found = listed(*args, **keys)
        random.Random(3).shuffle(found)
        return found

    monkeypatch.setattr(globs.glob, "glob", shuffled)
    assert list_files(source) == files
    assert plan_units(list_files(source), source, unit_bytes=500) == units
    assert corpus_fingerprint(list_files(source)) == corpus_fingerprint(files)


def test_broken_file_is_one_reject_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(100_000))
    packed = gzip.compress(lines)
    (tmp_path / "a.txt.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.txt").write_bytes(b"whole\n")
    (tmp_path / "c.txt").touch()
    found = read_all(TextSourceConfig(path=f"{tmp_path}/*", document="line"))
    *read, torn, broken, whole = found
    assert isinstance(torn, Rejected)
    assert torn.reason == "torn by a damaged stretch of the file"
    assert isinstance(broken, Rejected)
    assert (broken.reason, broken.source) == ("truncated gzip stream", "a.txt.gz")
    assert lines.startswith(b"".join(item.text.encode() for item in read))
    assert len(read) > 10_000
    assert whole == Document("whole\n", "b.txt", 0)


def test_hostile_files_come_to_an_outcome_each(tmp_path: Path) -> None:
    hostile = {
        "binary.txt": bytes(range(256)),
        "damaged.bz2": b"BZh9" + b"\xff" * 100,
        "empty.zst": b"",
        "long.txt": b"x" * 1_000_000,
        "mark.txt": b"\xef\xbb\xbfafter a mark",
        "not.zst": b"not compressed",
        "surrogate.txt": b"\xed\xa0\x80",
    }
    for name, raw in hostile.items():
        (tmp_path / name).write_bytes(raw)
    found = read_all(TextSourceConfig(path=f"{tmp_path}/*", document="file"))
    outcome = {
        item.source: item.reason if isinstance(item, Rejected) else len(item.text)
        for item in found
    }
    assert len(found) == len(outcome)
    assert outcome == {
        "binary.txt": "binary",
        "damaged.bz2": "damaged bzip2 stream",
        "long.txt": 1_000_000,
        "mark.txt": 12,
        "not.zst": "damaged zstandard stream",
        "surrogate.txt": "not UTF-8",
    }


@pytest.fixture
def mixture(tmp_path: Path) -> MixtureSourceConfig:
    for folder, name, text in [
        ("a", "x.txt", "a x"),
        ("a", "y.txt", "a y"),
        ("b", "x.txt", "b x"),
        ("b", "z.jsonl", json.dumps({"text": "b z"})),
    ]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    return MixtureSourceConfig(
        parts=(
            MixturePartConfig(
                source=TextSourceConfig(path=f"{tmp_path}/b/*.txt"), weight=2.0
            ),
            MixturePartConfig(source=TextSourceConfig(path=f"{tmp_path}/a/*.txt")),
            MixturePartConfig(
                source=JsonlSourceConfig(path=f"{tmp_path}/b/*.jsonl"), weight=0.5
            ),
        )
    )


def test_mixture(mixture) -> None:
    units = plan_units(list_files(mixture), mixture, unit_bytes=100)
    assert [(unit.index, unit.part) for unit in units] == [(0, 0), (1, 1), (2, 2)]
    assert [part.weight for part in list_sources(mixture)] == [2.0, 1.0, 0.5]
    # Only the files that share a name are told apart by their part.
    assert [(item.source, item.text) for item in read_all(mixture)] == [
        ("0/x.txt", "b x"),
        ("1/x.txt", "a x"),
        ("y.txt", "a y"),
        ("z.jsonl", "b z"),
    ]


def test_same_file_twice(mixture, tmp_path: Path) -> None:
    text = TextSourceConfig(path=f"{tmp_path}/*/x.txt")
    parts = (*mixture.parts, MixturePartConfig(source=text))
    with pytest.raises(DataError, match=r"twice: .*x.txt \(part \d\) and .* \(part 3"):
        list_files(MixtureSourceConfig(parts=parts))
    # Two ways to match are one file still.
    assert len(list_files(TextSourceConfig(path=f"{tmp_path}/**/**/y.txt"))) == 1
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "a/y.txt")
    with pytest.raises(DataError, match=r"a/y.txt .* and .*link.txt"):
        list_files(TextSourceConfig(path=f"{tmp_path}/**/*.txt"))
    link.unlink()
    # Stores that keep one copy of equal files link even empty ones.
    link.hardlink_to(tmp_path / "a/y.txt")
    assert len(list_files(TextSourceConfig(path=f"{tmp_path}/*.txt"))) == 1
    pair = ParallelSourceConfig(
        path=f"{tmp_path}/a/x.txt", target_path=f"{tmp_path}/a/x.txt"
    )
    with pytest.raises(DataError, match="the same file would be read twice"):
        list_files(pair)


def test_ranges_of_hashes_share_a_file_and_no_document(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [(f"text {n % 900}", n % 3) for n in range(1000)]
    path.write_text("text,label\n" + "".join(f"{t},{label}\n" for t, label in rows))
    parts = [(0.0, 0.5), (0.5, 0.9), (0.9, 1.0)]
    columns = ColumnsConfig(label="label")
    sources = [
        CsvSourceConfig(path=str(path), columns=columns, hash_range=each)
        for each in parts
    ]
    found = [read_all(source) for source in sources]
    texts = [[d.text for d in items if isinstance(d, Document)] for items in found]
    assert all(len(items) == 1000 for items in found)
    assert {type(item) for item in found[0]} == {Document, Filtered}
    assert {i.reason for i in found[0] if isinstance(i, Filtered)} == {
        "outside of hash_range"
    }
    assert sorted(itertools.chain(*texts)) == sorted(text for text, _ in rows)
    # A text is on one side, whatever its label is.
    assert not set(texts[0]) & {*texts[1], *texts[2]}
    assert [round(len(each) / 1000, 1) for each in texts] == [0.5, 0.4, 0.1]
    assert len(list_files(sources[0], sources[1])) == 2
    of_values = [
        replace(sources[1], columns=ColumnsConfig(text="text", where={"label": value}))
        for value in "01"
    ]
    assert len(list_files(*of_values)) == 2
    with pytest.raises(DataError, match="the same file would be read twice"):
        list_files(of_values[0], of_values[0])
    overlapping = replace(sources[1], hash_range=(0.4, 0.9))
    # Other columns are other hashes.
    unlike = replace(sources[1], columns=ColumnsConfig(text="label"))
    for other in (overlapping, unlike, replace(sources[1], hash_range=None)):
        with pytest.raises(DataError, match="the same file would be read twice"):
            list_files(sources[0], other)


def test_a_range_of_hashes_is_independent_of_the_validation_split() -> None:
    documents = [Document(f"text {n}", "a", n) for n in range(4000)]
    upper = TextSourceConfig(path="a", hash_range=(0.5, 1.0))
    kept = [d for d in documents if isinstance(apply_hash_range(d, upper), Document)]
    keys = np.array([document_key(document) for document in kept], np.uint64)
    assert len(kept) == pytest.approx(2000, abs=150)
    assert in_validation(keys, 0.1).mean() == pytest.approx(0.1, abs=0.03)


def test_pairs_in_both_directions(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("a dog\ntwo cats\n", "utf-8")
    (tmp_path / "de.txt").write_text("ein Hund\nzwei Katzen\n", "utf-8")
    one, other = (
        ParallelSourceConfig(
            path=f"{tmp_path}/{a}.txt", target_path=f"{tmp_path}/{b}.txt"
        )
        for a, b in (("en", "de"), ("de", "en"))
    )
    parts = (MixturePartConfig(source=one), MixturePartConfig(source=other))
    found = [
        (x.source, x.text, x.target_text)
        for x in read_all(MixtureSourceConfig(parts=parts))
    ]
    assert found == [
        ("en.txt", "a dog", "ein Hund"),
        ("en.txt", "two cats", "zwei Katzen"),
        ("de.txt", "ein Hund", "a dog"),
        ("de.txt", "zwei Katzen", "two cats"),
    ]
    for again in (one, other):
        with pytest.raises(DataError, match=r"twice: .* \(part \d\) and .* \(part 2\)"):
            list_files(
                MixtureSourceConfig(parts=(*parts, MixturePartConfig(source=again)))
            )
    with pytest.raises(DataError, match=r"twice: .* \(part 0\) and .* held out"):
        list_files(one, other)


def test_held_out_source(mixture, tmp_path: Path) -> None:
    training = TextSourceConfig(path=f"{tmp_path}/a/*.txt")
    parts = (
        MixturePartConfig(source=TextSourceConfig(path=f"{tmp_path}/b/*.txt")),
        MixturePartConfig(source=JsonlSourceConfig(path=f"{tmp_path}/b/*.jsonl")),
    )
    held_out = MixtureSourceConfig(parts=parts)
    files = list_files(training, held_out)
    # Unit indices and parts run on; files of one name are told apart.
    units = plan_units(files, training, 100, held_out)
    assert [(unit.index, unit.part) for unit in units] == [(0, 0), (1, 1), (2, 2)]
    assert [p.held_out for p in list_sources(training, held_out)] == [False, True, True]
    read = [item for unit in units for item in read_unit(unit, training, held_out)]
    assert [(item.source, item.text) for item in read] == [
        ("0/x.txt", "a x"),
        ("y.txt", "a y"),
        ("1/x.txt", "b x"),
        ("z.jsonl", "b z"),
    ]
    before = corpus_fingerprint(files)
    assert corpus_fingerprint(list_files(training)) != before
    (tmp_path / "b/z.jsonl").write_text('{"text": "b zz"}')
    assert corpus_fingerprint(list_files(training, held_out)) != before


def test_names_are_told_apart_though_a_folder_is_called_as_a_part(tmp_path) -> None:
    for name in ("train/x.txt", "train/1/x.txt", "test/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    files = list_files(
        TextSourceConfig(path=f"{tmp_path}/train/**/*.txt"),
        TextSourceConfig(path=f"{tmp_path}/test/*.txt"),
    )
    assert [file.name for file in files] == ["0/1/x.txt", "0/x.txt", "1/x.txt"]


def test_what_is_wrong_with_a_held_out_source_names_it(mixture, tmp_path) -> None:
    training = TextSourceConfig(path=f"{tmp_path}/a/x.txt")
    (tmp_path / "empty").touch()
    (tmp_path / "rows.csv").write_text("title\nwords\n")
    pair = ParallelSourceConfig(
        path=f"{tmp_path}/b/x.txt", target_path=f"{tmp_path}/none"
    )
    table = CsvSourceConfig(path=f"{tmp_path}/rows.csv")
    for held_out, expected in [
        (TextSourceConfig(path=f"{tmp_path}/none"), "no file matches"),
        (
            TextSourceConfig(path=f"{tmp_path}/empty"),
            "all 1 files .* nothing to validate on",
        ),
        (pair, "matches 1 files and"),
        (PythonDocsSourceConfig(packages=("none",)), "'none' is not an installed"),
        (TextSourceConfig(path="none://x"), "nothing installed here reads none://"),
        (
            TextSourceConfig(path=f"{tmp_path}/a/*.txt"),
            r"twice: .*a/x.txt \(part 0\) and .*a/x.txt \(part 1, held out\)",
        ),
    ]:
        key = r"^data\.validation_source(\.packages)?: "
        with pytest.raises(DataError, match=key + f".*{expected}"):
            list_files(training, held_out)
    files = list_files(training, table)
    _, unit = plan_units(files, training, 100, table)
    with pytest.raises(
        DataError, match=r"though data\.validation_source\.columns names"
    ):
        list(read_unit(unit, training, table))


def test_mixture_in_yaml(tmp_path: Path) -> None:
    text = """\
name: x
training: {steps: 1000}
data:
  source:
    kind: mixture
    parts:
      - {source: {kind: zip, path: a.zip}, weight: 3}
      - source: {kind: text, path: a.txt, encoding: detect}
"""
    assert parse_run(text, "f").data.source == MixtureSourceConfig(
        parts=(
            MixturePartConfig(source=ZipSourceConfig(path="a.zip"), weight=3.0),
            MixturePartConfig(source=TextSourceConfig(path="a.txt", encoding="detect")),
        )
    )
    with pytest.raises(
        ConfigError, match=r"f:6: data.source: parts: expected at least"
    ):
        parse_run(text[: text.index("parts:")] + "parts: []", "f")


def test_every_kind_has_a_reader() -> None:
    assert set(_READERS) == set(SingleSource.__args__)
    assert {part.weight for part in list_sources(TextSourceConfig(path="a"))} == {1.0}


def test_matches_are_those_of_beam(shelf) -> None:
    shelf["shelf://a/b.txt"] = b"x"
    (found,) = ShelfFileSystem(None).match(["shelf://a/*.txt"])
    assert isinstance(found, MatchResult)
    with pytest.raises(DataError, match="no file matches 'shelf://a/"):
        list_files(TextSourceConfig(path="shelf://a/*.csv"))


def test_fingerprint_knows_the_part_of_a_file(tmp_path: Path) -> None:
    for name in ("train/a.txt", "train/m.txt", "dev/z.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    sources = [
        TextSourceConfig(path=f"{tmp_path}/{name}/*.txt") for name in ("train", "dev")
    ]
    before = list_files(*sources)
    (tmp_path / "train/m.txt").rename(tmp_path / "dev/m.txt")
    after = list_files(*sources)
    assert [file.name for file in before] == [file.name for file in after]
    assert corpus_fingerprint(before) != corpus_fingerprint(after)
