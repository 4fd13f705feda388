"""Globs name files, and files open alike wherever they are."""

from pathlib import Path

import pytest

from configs.errors import DataError
from pipeline.readers.files import matching_files


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
