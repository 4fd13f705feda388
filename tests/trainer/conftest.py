"""Records of the small run, made once for all tests of the trainer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import transbeam
from configs.command import Invocation
from configs.console import Console
from configs.load import load_run
from pipeline.manifest import Manifest, read_manifest
from pipeline.stage import data
from tests.small_run import YAML, paragraphs


@pytest.fixture(scope="session")
def small_data(tmp_path_factory) -> Path:
    """A run folder with finished records, and its configuration beside it."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "corpus.txt").write_text("\n\n".join(paragraphs(300)), "utf-8")
    file = folder / "small.yaml"
    file.write_text(YAML.replace("PATH", str(folder / "corpus.txt")), "utf-8")
    data(_invocation(file, folder / "run"))
    return folder


def _invocation(file: Path, run_folder: Path, *overrides: str) -> Invocation:
    return Invocation(
        config=load_run(file, overrides),
        config_file=file,
        overrides=overrides,
        run_folder=run_folder,
        console=Console(quiet=True),
        workers=1,
    )


@pytest.fixture
def run(small_data: Path, tmp_path: Path) -> Callable[..., Invocation]:
    """Makes invocations over a copy of the records, with keys replaced."""

    def make(*overrides: str, folder: str = "run") -> Invocation:
        target = tmp_path / folder
        if not target.exists():
            shutil.copytree(small_data / "run", target)
        return _invocation(small_data / "small.yaml", target, *overrides)

    return make


@pytest.fixture
def manifest(small_data: Path) -> Manifest:
    return read_manifest(small_data / "run/data")


@pytest.fixture
def command(capsys) -> Callable[..., dict]:
    """Runs a command and reads what it says as JSON."""

    def run(*words: object) -> dict:
        code = transbeam.main([str(word) for word in (*words, "--json")])
        told = json.loads(capsys.readouterr().out)
        return {**told, "code": code}

    return run
