"""What the documents say about the project is there."""

import re
from pathlib import Path

import pytest

from tests.docs import ROOT, commands
from tests.finished_runs import imported_run
from transbeam.__main__ import ROOMS
from transbeam.configs.loader.yaml_config import load_run

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_named_in_documents_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    named = re.findall(
        r"`((?:configs|pipeline|model|trainer|serving|tests|bench|docs)/[\w./-]*)`",
        text,
    )
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [name for name in links if not (document.parent / name).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_configurations_in_documents_load(
    document: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun_with = load_run(ROOT / "configs/tiny/masked.yaml")
    imported_run(Path("runs/tiny_trimmed"), begun_with)
    file = tmp_path / "run.yaml"
    for text in re.findall(
        r"^```yaml\n(name:.*?)^```", document.read_text(), re.M | re.S
    ):
        file.write_text(text)
        load_run(file)


def test_the_configuration_that_is_run_is_the_one_that_is_shown() -> None:
    shown = (ROOT / "docs/weights.md").read_text("utf-8")
    assert f"```yaml\n{(ROOT / 'docs/fine_tune.yaml').read_text('utf-8')}```" in shown
    assert "transbeam run docs/fine_tune.yaml" in commands(ROOT / "docs/weights.md")


def test_readme_shows_commands_that_exist() -> None:
    shown = commands(ROOT / "README.md")
    assert "make demo" in shown
    assert "make test" in shown
    words = [command.split() for command in shown]
    known = {*ROOMS, "run", "--help", "--version"}
    for command in words:
        if command[0] == "transbeam":
            assert command[1] in known
        if command[0] == "make":
            assert re.search(rf"^{command[1]}:", (ROOT / "Makefile").read_text(), re.M)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 250
