"""What the documents say about the project is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import ROOT, commands
from transbeam.__main__ import ROOMS
from transbeam.configs.loader.yaml_config import load_run

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

WITH_PROGRAMS = [file for file in DOCUMENTS if "\n```python" in file.read_text("utf-8")]


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
def test_configurations_in_documents_load(document: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    for text in re.findall(
        r"^```yaml\n(name:.*?)^```", document.read_text(), re.M | re.S
    ):
        file.write_text(text)
        load_run(file)


@pytest.mark.parametrize("document", WITH_PROGRAMS, ids=lambda path: path.name)
def test_programs_in_documents_define_their_names(document: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-"],
        input="\n".join(programs),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


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
