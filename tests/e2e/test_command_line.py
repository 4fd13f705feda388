"""The commands as a user meets them: in a process of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.tokenizers.artifact import save_tokenizer
from pipeline.tokenizers.byte_bpe_model import ByteBPEModel
from pipeline.tokenizers.byte_bpe_vocabulary import ALPHABET
from pipeline.tokenizers.vocabulary import SPECIAL_PIECES
from pipeline.tokenizers.wordpiece_model import WordPieceModel
from tests.small_run import YAML, paragraphs

TRANSBEAM = [sys.executable, "-m", "transbeam"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A corpus, a configuration, and a run that went all the way."""
    folder = tmp_path_factory.mktemp("command-line")
    (folder / "corpus.txt").write_text("\n\n".join(paragraphs(300)), "utf-8")
    text = YAML.replace("PATH", "corpus.txt")
    examples = "export: {tflite_masks: 2, examples: ['the model reads a [MASK] of']}\n"
    (folder / "small.yaml").write_text(text + examples, "utf-8")
    done = transbeam(folder, "run", "small.yaml", "--json", "--workers=2")
    assert done.returncode == 0, done.stderr
    assert "oneDNN" not in done.stderr  # TensorFlow's own lines look like errors
    (folder / "first.json").write_text(done.stdout)
    return folder


def transbeam(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRANSBEAM, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def refused(folder: Path, *arguments: str) -> str:
    """The message of a command that must end with exit code 2."""
    done = transbeam(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_the_whole_way_and_json_alone_on_stdout(folder: Path) -> None:
    results = json.loads((folder / "first.json").read_text())
    assert list(results) == ["data", "train", "export", "predict"]
    assert all(row["passed"] for row in results["export"]["parity"])
    (prediction,) = results["predict"]["predictions"]
    assert prediction["text"] == "the model reads a [MASK] of"
    assert (folder / "runs/small/export/saved_model/1/saved_model.pb").is_file()
    assert (folder / "runs/small/export/tflite/model_dynamic_int8.tflite").is_file()


def test_second_run_skips_every_stage_and_says_why(folder: Path) -> None:
    done = transbeam(folder, "run", "small.yaml")
    assert done.returncode == 0
    assert done.stdout.count("skipped:") == 3
    assert "the same corpus" in done.stdout
    assert done.stderr == ""


@pytest.mark.thorough  # tests/trainer/test_run.py asks the same of the stage alone
def test_training_key_keeps_the_data(folder: Path) -> None:
    done = transbeam(folder, "run", "small.yaml", "--set", "training.steps=5", "--json")
    assert done.returncode == 0
    results = json.loads(done.stdout)
    assert results["data"]["skipped"]
    assert results["train"]["steps"] == 5
    assert "skipped" not in results["export"]
    assert "training.steps: 4 there, 5 here" in done.stderr
    assert len(list((folder / "runs/small/superseded").glob("training-*"))) == 1
    back = transbeam(folder, "run", "small.yaml", "--quiet")
    assert (back.returncode, back.stdout, back.stderr) == (0, "", "")


def test_single_stages_say_what_is_missing(folder: Path) -> None:
    for command, needed in (
        ("train", "transbeam data"),
        ("export", "transbeam"),
        ("predict", "transbeam export"),
    ):
        message = refused(folder, command, "small.yaml", "--run", "nowhere")
        assert needed in message


def test_keys_that_differ_are_named(folder: Path) -> None:
    message = refused(
        folder, "train", "small.yaml", "--set", "tokenizer.vocabulary_size=100"
    )
    assert "tokenizer.vocabulary_size: 120 there, 100 here" in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.step=3", "Did you mean 'steps'?"),
        ("training.steps=many", "training.steps"),
        ("training.steps=0", "training.steps"),
        ("data.source.path=none/*.txt", "no file matches"),
    ],
)
def test_wrong_values(folder: Path, override: str, expected: str) -> None:
    assert expected in refused(folder, "data", "small.yaml", "--set", override)


def test_errors_as_json(folder: Path) -> None:
    done = transbeam(folder, "train", "small.yaml", "--run", "nowhere", "--json")
    assert done.returncode == 2
    assert list(json.loads(done.stdout)) == ["error"]


def test_run_folder_that_cannot_be(folder: Path) -> None:
    message = refused(folder, "data", "small.yaml", "--run", "corpus.txt/run")
    assert "cannot be written" in message


def test_no_saved_model(folder: Path) -> None:
    message = refused(
        folder, "predict", "small.yaml", "--model", ".", "--text", "a [MASK]"
    )
    assert "SavedModel" in message


def test_nothing_to_fill(folder: Path) -> None:
    assert "[MASK]" in refused(folder, "predict", "small.yaml", "--text", "no gap")


@pytest.mark.parametrize(
    "stage",
    [pytest.param("data/state", marks=pytest.mark.thorough), "training/checkpoints"],
)
def test_ctrl_c_and_on(folder: Path, stage: str) -> None:
    run = f"runs/interrupted-{stage.split('/')[0]}"
    arguments = ["run", "small.yaml", "--run", run, "--workers=2"]
    arguments += ["--set", "training.steps=60"]
    process = subprocess.Popen(
        [*TRANSBEAM, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not (folder / run / stage).is_dir():
        time.sleep(0.02)
    # As a terminal does: to every process of the group.
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "run the same command again" in stderr
    assert "Traceback" not in stderr
    done = transbeam(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["train"]["steps"] == 60


def test_no_kind_of_tokenizer_makes_tensorflow_talk(tmp_path: Path) -> None:
    pieces = (*ALPHABET, "<|endoftext|>")
    save_tokenizer(tmp_path / "byte_bpe", ByteBPEModel(pieces=pieces, merges=()))
    pieces = (*SPECIAL_PIECES, "a", "##b")
    wordpiece = WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)
    save_tokenizer(tmp_path / "wordpiece", wordpiece)
    (tmp_path / "lines.txt").write_text("ab, extraordinarily long words\n" * 1000)
    for kind in ("byte_bpe", "wordpiece"):
        done = transbeam(tmp_path, "tokenize", kind, "lines.txt")
        assert (done.returncode, done.stderr) == (0, "")
