"""The commands as a user meets them, some in a process of their own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.processes import environment, small_run, start, stop, transbeam
from tests.harness.stages import copy_of
from tests.small_run import YAML
from transbeam import main
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel


@pytest.fixture(scope="module")
def made() -> Path:
    return small_run()


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch) -> Path:
    """A copy of it, where commands are then given in this process."""
    folder = copy_of(made, tmp_path / "copy")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def refused(folder: Path, capsys) -> Callable[..., str]:
    """The message of a command that must end with exit code 2."""

    def run(*arguments: str) -> str:
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        return said.err

    return run


def test_the_whole_way_and_json_alone_on_stdout(made: Path) -> None:
    assert "oneDNN" not in (made / "first.err").read_text()  # which look like errors
    results = json.loads((made / "first.json").read_text())
    assert list(results) == ["data", "train", "export", "predict"]
    assert all(row["passed"] for row in results["export"]["parity"])
    (prediction,) = results["predict"]["predictions"]
    assert prediction["text"] == "the model reads a [MASK] of"
    assert (made / "runs/small/export/saved_model/1/saved_model.pb").is_file()
    assert (made / "runs/small/export/tflite/model_dynamic_int8.tflite").is_file()


def test_second_run_skips_every_stage_and_says_why(folder: Path, capsys) -> None:
    assert main(["run", "small.yaml"]) == 0
    said = capsys.readouterr()
    assert said.out.count("skipped:") == 3
    assert "the same corpus" in said.out
    assert said.err == ""


@pytest.mark.thorough(
    instead="test_second_time_is_skipped_and_a_changed_key_trains_again, "
    "test_second_run_skips_every_stage_and_says_why"
)
def test_training_key_keeps_the_data(folder: Path) -> None:
    peak = ("--set", "training.schedule.peak=0.01")
    done = transbeam(folder, "run", "small.yaml", *peak, "--json")
    assert done.returncode == 0
    results = json.loads(done.stdout)
    assert results["data"]["skipped"]
    assert "skipped" not in results["train"]
    assert "skipped" not in results["export"]
    assert "training.schedule.peak: 0.001 there, 0.01 here" in done.stderr
    assert len(list((folder / "runs/small/superseded").glob("training-*"))) == 1
    back = transbeam(folder, "run", "small.yaml", "--quiet")
    assert (back.returncode, back.stdout, back.stderr) == (0, "", "")


def test_single_stages_say_what_is_missing(refused) -> None:
    for command, needed in (
        ("train", "transbeam data"),
        ("export", "transbeam"),
        ("predict", "transbeam export"),
    ):
        assert needed in refused(command, "small.yaml", "--run", "nowhere")


def test_keys_that_differ_are_named(refused) -> None:
    message = refused("train", "small.yaml", "--set", "tokenizer.vocabulary_size=100")
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
def test_wrong_values(refused, override: str, expected: str) -> None:
    assert expected in refused("data", "small.yaml", "--set", override)


def test_an_error_of_a_process(tmp_path: Path) -> None:
    """Its exit code is 2, and there is no traceback; as JSON it is on stdout alone."""
    text = YAML.replace("PATH", "corpus.txt").replace("steps:", "step:")
    (tmp_path / "small.yaml").write_text(text, "utf-8")
    done = transbeam(tmp_path, "train", "small.yaml", "--json")
    assert done.returncode == 2
    assert list(json.loads(done.stdout)) == ["error"]
    assert "Traceback" not in done.stderr


def test_errors_as_json(folder: Path, capsys) -> None:
    assert main(["train", "small.yaml", "--run", "nowhere", "--json"]) == 2
    assert list(json.loads(capsys.readouterr().out)) == ["error"]


def test_run_folder_that_cannot_be(refused) -> None:
    message = refused("data", "small.yaml", "--run", "corpus.txt/run")
    assert "cannot be written" in message


def test_no_saved_model(refused) -> None:
    message = refused("predict", "small.yaml", "--model", ".", "--text", "a [MASK]")
    assert "SavedModel" in message


def test_nothing_to_fill(refused) -> None:
    assert "[MASK]" in refused("predict", "small.yaml", "--text", "no gap")


def test_ctrl_c_and_on(folder: Path, capsys) -> None:
    """A run is stopped in its training, and goes on there."""
    copy_of(folder / "runs/small/data", folder / "runs/stopped/data")
    arguments = ["small.yaml", "--run", "runs/stopped"]
    for key in ("training.steps=60", "training.evaluate_every=10"):
        arguments += ["--set", key]
    process = start(folder, "run", *arguments)
    stop(process, folder / "runs/stopped/training/checkpoints")
    assert main(["train", *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 60
    assert "skipped" not in result


@pytest.mark.thorough(instead="test_ctrl_c_and_on")
@pytest.mark.parametrize("stage", ["data/state", "training/checkpoints"])
def test_ctrl_c_of_a_stage_and_the_whole_way_on(folder: Path, stage: str) -> None:
    run = f"runs/interrupted-{stage.split('/')[0]}"
    arguments = ["run", "small.yaml", "--run", run, "--workers=2"]
    arguments += ["--set", "training.steps=60"]
    stop(start(folder, *arguments), folder / run / stage)
    done = transbeam(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["train"]["steps"] == 60


TOKENIZE = """
import sys
from transbeam import main
sys.exit(sum(main(["tokenize", kind, "lines.txt"]) for kind in sys.argv[1:]))
"""


def test_no_kind_of_tokenizer_makes_tensorflow_talk(tmp_path: Path) -> None:
    pieces = (*ALPHABET, "<|endoftext|>")
    save_tokenizer(tmp_path / "byte_bpe", ByteBPEModel(pieces=pieces, merges=()))
    pieces = (*SPECIAL_PIECES, "a", "##b")
    wordpiece = WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)
    save_tokenizer(tmp_path / "wordpiece", wordpiece)
    (tmp_path / "lines.txt").write_text("ab, extraordinarily long words\n" * 1000)
    done = subprocess.run(
        [sys.executable, "-c", TOKENIZE, "byte_bpe", "wordpiece"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") >= 2 * 1000
