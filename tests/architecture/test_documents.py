"""Files, configurations and commands named in the documents exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site.generated import pages
from tests.docs import ROOT, commands
from tests.finished_runs import imported_run
from transbeam.__main__ import ROOMS
from transbeam.configs.loader.task_file import load_task_file
from transbeam.configs.loader.yaml_config import load_run

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Pages of the site that are made of code.
GENERATED = {ROOT / "docs" / path for path in pages()}

WITH_PROGRAMS = [file for file in DOCUMENTS if "\n```python" in file.read_text("utf-8")]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_files_named_in_documents_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    told = re.findall(
        r"`((?:configs|pipeline|model|trainer|serving|tests|bench|docs)/[\w./-]*)`",
        text,
    )
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    linked = {name: (document.parent / name).resolve() for name in links}
    missing = [name for name in told if not (ROOT / name).exists()]
    missing += [name for name, file in linked.items() if not is_there(file)]
    assert not missing


def is_there(file: Path) -> bool:
    return file.exists() or file in GENERATED


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_configurations_in_documents_load(
    document: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun_with = load_run(ROOT / "configs/tiny/masked.yaml")
    for run in set(re.findall(r"init_from: (runs/\w+)", document.read_text("utf-8"))):
        imported_run(Path(run), begun_with)
    file = tmp_path / "run.yaml"
    for text in re.findall(
        r"^```yaml(?: title=.*)?\n(name:.*?)^```", document.read_text(), re.M | re.S
    ):
        file.write_text(text)
        load = load_task_file if re.search("^tasks:", text, re.M) else load_run
        load(file)


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


def test_the_configuration_that_is_run_is_the_one_that_is_shown() -> None:
    shown = (ROOT / "docs/weights.md").read_text("utf-8")
    assert f"```yaml\n{(ROOT / 'docs/fine_tune.yaml').read_text('utf-8')}```" in shown
    assert "transbeam run docs/fine_tune.yaml" in commands(ROOT / "docs/weights.md")


def test_commands_in_documents_exist() -> None:
    known = {*ROOMS, "run", "--help", "--version"}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        for command in commands(document):
            match command.split():
                case ["transbeam", name, *_]:
                    assert name in known, f"{named(document)}: {command}"
                case ["make", target, *_]:
                    assert target in targets, f"{named(document)}: {command}"


def test_checks_named_in_documents_exist() -> None:
    """Checks of the studio's page are functions that pytest does not collect."""
    folder = ROOT / "tests/serving/studio"
    code = "".join(file.read_text("utf-8") for file in folder.glob("*_checks.py"))
    for document in DOCUMENTS:
        for name in re.findall(r"`(check_\w+)`", document.read_text("utf-8")):
            assert f"def {name}(" in code, f"{named(document)}: {name}"
