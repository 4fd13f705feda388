"""The small run: its records and its training, made once for all tests."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tensorflow as tf

import transbeam
from tests.harness.stages import copy_of, stage
from tests.small_run import YAML, paragraphs
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.stage import data
from transbeam.trainer.run import train


def eagerly(test: Callable) -> Callable:
    """Runs a test without TensorFlow's graphs, of which it claims nothing.

    They take longer to trace than a few steps of a small model to compute.
    """
    for mark in (
        pytest.mark.usefixtures("no_graphs"),
        # Those of tf.data stay.
        pytest.mark.filterwarnings("ignore:Even though the .tf.config:UserWarning"),
    ):
        test = mark(test)
    return test


@pytest.fixture
def no_graphs() -> Iterator[None]:
    with without_graphs():
        yield


@contextmanager
def without_graphs() -> Iterator[None]:
    """Runs functions eagerly in a part of a test, as `eagerly` does in a whole one."""
    tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Even though the .tf.config")
            yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def small_data() -> Path:
    """A run folder with finished records, and its configuration beside it."""
    return stage("small-records", _make_records)


@pytest.fixture(scope="session")
def small_trained() -> Path:
    """The folder of the same run when its model is trained as its file says."""
    return stage("small-trained", _make_trained) / "run"


def trained_run(name: str, *overrides: str) -> Path:
    """The folder of the run trained with other keys: `name` says which these are."""

    def make(folder: Path) -> None:
        _train(folder, *overrides)

    return stage(f"small-trained-{name}", make) / "run"


def _make_records(folder: Path) -> None:
    (folder / "corpus.txt").write_text("\n\n".join(paragraphs(300)), "utf-8")
    file = folder / "small.yaml"
    file.write_text(YAML.replace("PATH", str(folder / "corpus.txt")), "utf-8")
    data(_invocation(file, folder / "run"))


def _make_trained(folder: Path) -> None:
    _train(folder)


def _train(folder: Path, *overrides: str) -> None:
    records = stage("small-records", _make_records)
    copy_of(records / "run", folder / "run")
    train(_invocation(records / "small.yaml", folder / "run", *overrides))


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
            copy_of(small_data / "run", target)
        return _invocation(small_data / "small.yaml", target, *overrides)

    return make


@pytest.fixture
def trained(
    run: Callable[..., Invocation], small_trained: Path, tmp_path: Path
) -> Callable[..., Invocation]:
    """Makes invocations over a copy of the trained run, with keys replaced."""
    copy_of(small_trained, tmp_path / "run")
    return run


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
