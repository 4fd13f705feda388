"""Training on the records of other runs as well."""

import shutil
from pathlib import Path

import pytest

from tests.harness.stages import copy_of, stage
from tests.small_run import YAML, paragraphs
from tests.trainer.conftest import _invocation, eagerly
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.model_files import training_stage
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.stage import data
from transbeam.trainer.base.training_stage import training_inputs
from transbeam.trainer.input.datasets import data_sets
from transbeam.trainer.run import train

PRETRAINED = "tokenizer={kind: pretrained, path: PATH/run/data/tokenizer}"


@pytest.fixture(scope="module")
def other(small_data: Path) -> Path:
    """A run with other records of the same tokenizer; it is not to be changed."""

    def make_other(folder: Path) -> None:
        write_other(folder, small_data)

    return stage("small-records-other", make_other) / "run"


def write_other(folder: Path, small_data: Path) -> None:
    (folder / "corpus.txt").write_text("\n\n".join(reversed(paragraphs(90))), "utf-8")
    file = folder / "other.yaml"
    file.write_text(YAML.replace("PATH", str(folder / "corpus.txt")), "utf-8")
    make(file, folder / "run", PRETRAINED.replace("PATH", str(small_data)))


def make(file: Path, run_folder: Path, *keys: str) -> None:
    data(_invocation(file, run_folder, *keys))


def beside(*runs: Path) -> str:
    listed = ", ".join(f"{{run: {path}, weight: 3}}" for path in runs)
    return f"training.datasets=[{listed}]"


def inputs(invocation: Invocation, there=None) -> dict:
    return training_inputs(invocation.config, "own", there)


@eagerly
def test_trains_on_both_until_one_of_them_changes(
    run, other, small_trained, tmp_path
) -> None:
    moved = tmp_path / "moved"
    copy_of(other, moved)
    both = run(beside(moved))
    own = read_manifest(both.run_folder / "data")
    sets = data_sets(both.config, own)
    assert [(m.folder, weight) for m, weight in sets] == [
        (own.folder, 1.0),
        (moved / "data", 3.0),
    ]
    alone = training_stage(small_trained).load()["result"]
    assert train(both)["evaluation"]["loss"] != alone["evaluation"]["loss"]
    assert train(both)["skipped"]

    stage = moved / "data/stage.json"
    before = inputs(both)
    text = stage.read_text("utf-8")
    fingerprint = before["datasets[0].records"]
    stage.write_text(text.replace(fingerprint, "0" * len(fingerprint)), "utf-8")
    assert inputs(both) != before
    shutil.rmtree(moved)
    assert inputs(both, before) == before  # finished, it needs them no more
    assert train(both)["skipped"]


def test_records_that_do_not_go_together_are_refused(
    run, other, small_data, tmp_path
) -> None:
    own = read_manifest(small_data / "run/data")

    def refused(*runs: Path) -> str:
        with pytest.raises(ArtifactError) as caught:
            data_sets(run(beside(*runs)).config, own)
        return str(caught.value)

    assert "is this run itself" in refused(small_data / "run")
    missing = refused(other, tmp_path / "none")
    assert missing.startswith(f"training.datasets[1].run={tmp_path / 'none'}: ")
    assert "the data job has not finished here" in missing
    file = other.parent / "other.yaml"
    same = PRETRAINED.replace("PATH", str(small_data))
    make(file, tmp_path / "words", "tokenizer.vocabulary_size=100")
    assert "another tokenizer" in refused(tmp_path / "words")
    make(file, tmp_path / "masks", same, "objective.masking_fraction=0.3")
    assert (
        "another objective (objective.masking_fraction: 0.3 there, 0.15 here)"
    ) in refused(tmp_path / "masks")
    make(
        file,
        tmp_path / "long",
        same,
        "data.sequence_length=48",
        "model.max_sequence_length=48",
    )
    assert "the records do not fit" in refused(tmp_path / "long")


def test_damaged_records_of_another_run_are_refused(run, other, tmp_path) -> None:
    copy_of(other, tmp_path / "damaged")
    shard = next((tmp_path / "damaged/data/records").glob("train*"))
    content = bytearray(shard.read_bytes())
    content[20] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ArtifactError, match=shard.name):
        train(run(beside(tmp_path / "damaged")))


def test_nothing_is_moved_aside_for_records_that_are_refused(trained, tmp_path) -> None:
    with pytest.raises(ArtifactError, match="the data job has not finished"):
        train(trained(beside(tmp_path / "none")))
    assert train(trained())["skipped"]
