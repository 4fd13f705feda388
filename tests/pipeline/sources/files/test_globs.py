"""Globs find what Python's own find, and come to an end where links lead back."""

import glob
from pathlib import Path

import pytest

from transbeam.pipeline.sources.files.globs import expand

FILES = ("a.txt", "b.md", "deep/c.txt", "deep/er/d.txt", ".hidden/e.txt", "[x]/f.txt")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PATTERNS = [
    "**/*.txt",
    "**",
    "deep/**",
    "deep/**/*.txt",
    "d*/**/d.txt",
    "**/er/**/*",
    "**/**/d.txt",
    "*.txt",
    "./**/*.md",
    "[[]x]/**/*.txt",
    "none/**/*.txt",
    ".hidden/**/*.txt",
    "**/[x]/*",
]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_pythons_own(corpus: Path, pattern: str, absolute: bool) -> None:
    if absolute:
        pattern = f"{glob.escape(str(corpus))}/{pattern}"

    def files(paths: list[str]) -> list[Path]:
        return sorted({Path(path) for path in paths if Path(path).is_file()})

    assert files(expand(pattern)) == files(glob.glob(pattern, recursive=True))


def test_links_that_lead_back_are_not_followed(corpus: Path) -> None:
    (corpus / "deep/up").symlink_to("..")
    (corpus / "deep/er/self").symlink_to(".")
    (corpus / "latest").symlink_to("deep")
    found = sorted(expand("**/*.txt"))
    assert found == [
        "[x]/f.txt",
        "a.txt",
        "deep/c.txt",
        "deep/er/d.txt",
        "latest/c.txt",
        "latest/er/d.txt",
    ]


def test_link_to_itself_hides_nothing_beside_it(corpus: Path) -> None:
    (corpus / "deep/self.txt").symlink_to("self.txt")
    (corpus / "deep/a").symlink_to("b")
    (corpus / "deep/b").symlink_to("a")
    found = sorted(expand("deep/**/*.txt"))
    assert found == ["deep/c.txt", "deep/er/d.txt", "deep/self.txt"]


def test_link_out_of_the_glob_and_back_is_not_followed(corpus: Path) -> None:
    (corpus / "deep/er/all").symlink_to(corpus)
    (corpus / "deep/er/root").symlink_to("/")
    found = sorted(expand(f"{corpus}/deep/**/*.txt"))
    assert found == [f"{corpus}/deep/c.txt", f"{corpus}/deep/er/d.txt"]
