"""Globs name files, and files open alike wherever they are."""

import os
from pathlib import Path

import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.sources.corpus_files import corpus_fingerprint, list_files
from transbeam.pipeline.sources.files.file_access import matching_files
from transbeam.pipeline.sources.work_units import plan_units, read_unit


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


def test_a_name_that_is_there_is_no_glob(tmp_path: Path, monkeypatch) -> None:
    for name in ("data [v1]/a.txt", "data v/a.txt", "data [v1]/b[0].txt", "b0.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)

    def paths(pattern: str) -> list[str]:
        found = matching_files(pattern)
        assert all(file.path.endswith(file.name) for file in found)
        return sorted(os.path.relpath(file.path, tmp_path) for file in found)

    assert paths(f"{tmp_path}/data [v1]/a.txt") == ["data [v1]/a.txt"]
    assert paths(f"{tmp_path}/data [v1]/*.txt") == [
        "data [v1]/a.txt",
        "data [v1]/b[0].txt",
    ]
    assert paths(f"{tmp_path}/data [[]v1]/b[[]0].txt") == ["data [v1]/b[0].txt"]
    assert paths(f"{tmp_path}/data [uvw]/*") == ["data v/a.txt"]
    assert paths(f"{tmp_path}/b[0-9].txt") == ["b0.txt"]
    (file,) = matching_files(f"{tmp_path}/data [v1]/a.txt")
    assert file.name == "a.txt"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths("~/data [v1]/a.txt") == ["data [v1]/a.txt"]


def test_a_folder_is_answered_with_a_glob(tmp_path: Path) -> None:
    for name in ("flat/a.txt", "flat/b.md", "flat/c.txt", "deep/er/a.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for pattern, glob in [
        ("flat", "flat/*.txt"),
        ("flat/", "flat/*.txt"),
        ("deep", "deep/**/*.jsonl"),
        ("d*", "d*/**/*.jsonl"),
    ]:
        with pytest.raises(DataError, match="is a folder, and a path names") as told:
            matching_files(f"{tmp_path}/{pattern}")
        assert str(told.value).endswith(f"'{tmp_path}/{glob}'")
        assert matching_files(f"{tmp_path}/{glob}")


def test_link_to_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(DataError, match=r"a.txt is a link to .*gone.txt, which cannot"):
        matching_files(f"{tmp_path}/*.txt")


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "b.txt").symlink_to("a.txt")
    with pytest.raises(DataError, match=r"is a link to [ab].txt, which cannot be"):
        matching_files(f"{tmp_path}/**/*.txt")


def test_what_never_ends_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    for make in (lambda p: os.mkfifo(p), lambda p: p.symlink_to("/dev/zero")):
        (tmp_path / "b.txt").unlink(missing_ok=True)
        make(tmp_path / "b.txt")
        with pytest.raises(DataError, match=r"b.txt is no file that can be read twice"):
            matching_files(f"{tmp_path}/*.txt")


def test_names_that_are_no_utf_8_are_written_out(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    Path(os.fsdecode(path)).write_text("one\n")
    source = TextSourceConfig(path=f"{tmp_path}/*.txt")
    files = list_files(source)
    assert [file.name for file in files] == [r"caf\xe9.txt"]
    assert len(corpus_fingerprint(files)) == 16
    (unit,) = plan_units(files, source, 100)
    assert list(read_unit(unit, source)) == [Document("one\n", r"caf\xe9.txt", 0)]
