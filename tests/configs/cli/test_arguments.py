"""Exit codes of commands, their output on stdout and stderr, and `run`."""

import argparse
import dataclasses
import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from transbeam import __main__ as command_line
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.configs.base.reflection import plain
from transbeam.configs.base.version import VERSION
from transbeam.configs.cli.argument_parser import parse
from transbeam.configs.cli.arguments import (
    Invocation,
    JobArguments,
    read_invocation,
    run_main,
    usable_cores,
)
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    run_calibration,
    write_calibration,
)
from transbeam.configs.loader.run_folder import save_config
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.traits import TRAITS
from transbeam.model.__main__ import main as check_main
from transbeam.serving import __main__ as serving_main
from transbeam.serving.predict.command import PredictArguments
from transbeam.trainer.__main__ import main as explain_main

REPOSITORY = Path(__file__).parents[3]
DEMO = str(REPOSITORY / "configs" / "demo.yaml")


def ends_with(error):
    def command(argv):
        raise error

    return command


# ------------------------------------------------------------- run_main


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DataError("corpus: empty"), 2, "error: corpus: empty\n"),
        (OSError(errno.ENOSPC, "x", "a/b"), 2, "error: a/b: no space is left on the "
         "disk. Free some, or choose another folder.\n"),
        (PermissionError(errno.EACCES, "x"), 2, "error: the disk: permission denied. "
         "Change its rights, or choose another folder.\n"),
        (KeyboardInterrupt(), 130, "interrupted: what is finished is kept; run the "
         "same command again to go on\n"),
    ],
)  # fmt: skip
def test_ends_without_a_traceback(capsys, monkeypatch, error, code, told):
    # With threads of other tests, such as a server's, the process would end at once.
    ended = "transbeam.configs.cli.arguments._end_process"
    monkeypatch.setattr(ended, lambda code: None)
    assert run_main(ends_with(error), []) == code
    assert capsys.readouterr() == ("", told)


def test_with_json_the_error_is_an_object_too(capsys):
    assert run_main(ends_with(ArtifactError("gone")), ["demo.yaml", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": "gone"}
    assert err == "error: gone\n"


@pytest.mark.parametrize(
    "error", [ValueError("bug"), OSError(errno.EIO, "x"), BrokenPipeError("a socket")]
)
def test_bugs_keep_their_traceback(error):
    with pytest.raises(type(error)):
        run_main(ends_with(error), [])


def test_value_of_the_function_is_the_exit_code():
    assert run_main(len, ["a", "b", "c"]) == 3


def test_reader_of_stdout_that_is_gone_is_no_error():
    program = (
        "from transbeam.configs.cli.arguments import run_main\n"
        "def talk(argv):\n"
        "    while True: print('x' * 1000)\n"
        "raise SystemExit(run_main(talk, []))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_terminal_without_unicode_does_not_end_the_command():
    result = subprocess.run(
        [sys.executable, "-c", "from transbeam.configs.cli.arguments import run_main\n"
         "run_main(lambda argv: print('\\u2265'), [])"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )  # fmt: skip
    assert result.stdout == b"\\u2265\n"


# ------------------------------------------------------------- common arguments


def invocation_of(*argv: str) -> Invocation:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    return read_invocation(parse(parser, JobArguments, argv))


def test_defaults_of_an_invocation():
    invocation = invocation_of(DEMO)
    assert invocation.config == load_run(DEMO)
    assert invocation.run_folder == Path("runs/demo")
    assert invocation.workers == usable_cores() >= 1
    assert (invocation.console.quiet, invocation.console.json) == (False, False)


def test_arguments_reach_the_invocation():
    argv = ["--run", "my run", "--set", "seed=3", "--set", "training.steps=500"]
    invocation = invocation_of(DEMO, *argv, "--workers", "3", "--quiet", "--json")
    assert (invocation.config.seed, invocation.config.training.steps) == (3, 500)
    assert invocation.run_folder == Path("my run")
    assert invocation.workers == 3
    assert (invocation.console.quiet, invocation.console.json) == (True, True)
    assert invocation.command("train") == (
        f"transbeam train {DEMO} --run 'my run' --set seed=3 --set training.steps=500"
    )


@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_wrong_number_of_workers(workers, capsys):
    with pytest.raises(SystemExit) as caught:
        invocation_of(DEMO, "--workers", workers)
    assert caught.value.code == 2
    assert "--workers" in capsys.readouterr().err


# ------------------------------------------------------------- check and explain


def test_check_says_what_the_run_is(capsys):
    assert check_main(["check", DEMO, "--set", "training.steps=500"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{DEMO} is right: it describes the run 'demo'.\n")
    assert "500 steps of 8 records: 512,000 tokens" in out
    assert err == ""


def test_check_cannot_know_how_many_steps_epochs_are(capsys):
    assert check_main(["check", DEMO, "--set", "training.epochs=0.5"]) == 0
    told = "0.5 epochs in steps of 8 records; the records that `transbeam data` makes"
    assert told in capsys.readouterr().out


def test_check_says_what_it_is_validated_on(capsys):
    held_out = "data.validation_source={kind: jsonl, path: test.jsonl}"
    assert check_main(["check", DEMO, "--set", held_out]) == 0
    assert "tokens, validated on jsonl\n" in capsys.readouterr().out


def test_check_as_json_is_the_resolved_configuration(capsys):
    assert check_main(["check", DEMO, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told.pop("memory").keys() == {"training", "found"}
    assert told.pop("places")["name"] == f"{DEMO}:5"
    assert told == plain(load_run(DEMO))


def test_check_of_a_wrong_file(tmp_path, capsys):
    file = tmp_path / "run.yaml"
    file.write_text("nam: x\n")
    assert check_main(["check", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}:1: nam: unknown key. Did you mean 'name'?")


def test_explain_from_the_command_line(capsys):
    assert explain_main(["explain", "model.dropout"]) == 0
    assert capsys.readouterr().out.startswith("model.dropout: 0.1  Dropout after")
    assert explain_main(["explain", "model.dropout", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["maximum"] == 0.99
    assert explain_main(["explain", "model.droput"]) == 2
    assert "Did you mean 'model.dropout'?" in capsys.readouterr().err


@pytest.fixture
def made(tmp_path):
    """The folder of a run whose data and then training were made."""
    for stage, steps in (("data", 500), ("training", 700)):
        folder = tmp_path / "runs" / stage
        folder.mkdir(parents=True)
        save_config(folder, load_run(DEMO, [f"training.steps={steps}"]))
        os.utime(folder / "run.yaml", (steps, steps))
    return tmp_path / "runs"


def test_the_folder_of_a_run_is_its_configuration(made):
    invocation = invocation_of(str(made))
    assert invocation.config.training.steps == 700
    assert invocation.run_folder == made
    assert invocation.command("data") == f"transbeam data {made}"
    assert invocation_of(str(made), "--run", "other").run_folder == Path("other")
    save_config(made, load_run(DEMO, ["training.steps=900"]))
    assert invocation_of(str(made)).config.training.steps == 900


@pytest.mark.parametrize(
    ("folder", "told"),
    [("", "no run.yaml is in this folder"), ("data", "is the folder of a stage")],
)
def test_a_folder_that_is_no_run_is_refused(tmp_path, folder, told):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/stage.json").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path}.* {told}"):
        load_run(tmp_path / folder)


def test_commands_to_type_have_no_set_that_the_folder_says_too(made):
    again = invocation_of(DEMO, "--run", str(made), "--set", "training.steps=700")
    assert again.command("predict") == f"transbeam predict {made}"
    other = invocation_of(DEMO, "--run", str(made), "--set", "training.steps=800")
    assert other.command("predict").endswith(f"--run {made} --set training.steps=800")


def test_check_says_how_a_run_was_made_by_other_keys(made, tmp_path, capsys):
    argv = ["check", DEMO, "--set", "training.steps=900", "--run"]
    assert check_main([*argv, str(made)]) == 0
    assert f"{made} was made by other keys:" in (told := capsys.readouterr().out)
    assert re.search(r"^ +training\.steps: 700 there, 900 here$", told, re.M)
    assert check_main([*argv, str(made), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["differences"]
    assert "training.steps: 700 there, 900 here" in found
    assert check_main([*argv, str(tmp_path / "new")]) == 0
    assert f"{tmp_path / 'new'} is not there yet" in capsys.readouterr().out


# ------------------------------------------------------------- transbeam


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_shows_an_example_of_every_command(argv, capsys):
    assert command_line.main(argv) == 0
    out = capsys.readouterr().out
    for command in [*command_line.ROOMS, "run"]:
        assert f"\n  transbeam {command} " in out


def test_examples_of_the_help_name_files_and_keys_that_exist():
    lines = [line.split() for line in command_line.HELP.splitlines()]
    named = {word for line in lines for word in line if word.endswith("demo.yaml")}
    assert [REPOSITORY / name for name in named] == [Path(DEMO)]


def test_version(capsys):
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"transbeam {VERSION}\n"


def test_unknown_command(capsys):
    assert command_line.main(["trian", DEMO]) == 2
    assert "'trian' is not a command. Did you mean 'train'?" in capsys.readouterr().err


def test_commands_are_passed_whole_to_their_rooms(monkeypatch):
    called = []

    def main(argv):
        called.append(argv)
        return 7

    monkeypatch.setitem(
        sys.modules, "transbeam.trainer.__main__", SimpleNamespace(main=main)
    )
    assert command_line.main(["evaluate", DEMO, "--json"]) == 7
    assert called == [["evaluate", DEMO, "--json"]]
    monkeypatch.setitem(
        sys.modules, "transbeam.pipeline.__main__", SimpleNamespace(main=main)
    )
    assert command_line.main(["data", DEMO]) == 7
    assert command_line.main(["tokenize", "vocab.txt"]) == 7
    assert called[1:] == [["data", DEMO], ["tokenize", "vocab.txt"]]


@pytest.fixture
def rooms(monkeypatch, tmp_path):
    """Rooms that say what they are asked for and make nothing."""
    monkeypatch.chdir(tmp_path)
    calls = []

    def stage(name, **result):
        def function(invocation):
            calls.append((name, invocation.run_folder, invocation.config.seed))
            return result

        return function

    made = {
        "pipeline": {
            "data": stage("data", summary="3 records", path="runs/x/data", records=3)
        },
        "trainer": {
            "train": stage("train", peak_memory_mb=1234),
            "evaluate": stage("evaluate"),
        },
        "serving": {"export": stage("export"), "predict": stage("predict", answers=[])},
    }
    for room, functions in made.items():
        module = SimpleNamespace(**functions)
        monkeypatch.setitem(sys.modules, f"transbeam.{room}.__main__", module)
    return calls


def test_run_goes_through_the_stages_in_order(rooms, capsys):
    assert command_line.main(["run", DEMO, "--run", "runs/x", "--set", "seed=3"]) == 0
    assert rooms == [
        (name, Path("runs/x"), 3) for name in ("data", "train", "export", "predict")
    ]
    screen = capsys.readouterr().out
    assert "\n1 of 4: data\n" in screen
    assert "The run 'demo' is done.\n" in screen
    assert "  data     0:00             3 records\n" in screen
    assert "  train    0:00, 1,234 MB\n" in screen
    assert f"  transbeam predict {DEMO} --run runs/x --set seed=3 --text " in screen


def test_run_predicts_nothing_without_examples(rooms, capsys):
    argv = ["run", DEMO, "--run", "runs/x", "--set", "export.examples=[]"]
    assert command_line.main(argv) == 0
    assert [name for name, *_ in rooms] == ["data", "train", "export"]
    screen = capsys.readouterr().out
    assert "\n3 of 3: export\n" in screen
    assert "transbeam predict" in screen


def test_run_evaluates_before_an_export_with_a_fitted_number(
    rooms, tmp_path, capsys
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "name: x\n"
        "data:\n  source: {kind: jsonl, path: x, columns: {label: y}}\n"
        "objective: {kind: classification, labels: [a, b]}\n"
        "export: {fitted_temperature: true}\n"
    )
    assert command_line.main(["run", str(file)]) == 0
    assert [name for name, *_ in rooms] == ["data", "train", "evaluate", "export"]
    # If there is a calibration of the weights, they are not evaluated again.
    weights = Path("runs/x/training/model.weights.h5")
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"1")
    calibration = Calibration(weights_sha256=hash_file(weights), records_sha256="")
    write_calibration(run_calibration(Path("runs/x")), calibration)
    rooms.clear()
    assert command_line.main(["run", str(file)]) == 0
    assert [name for name, *_ in rooms] == ["data", "train", "export"]
    assert "a calibration of this model is there" in capsys.readouterr().out


@pytest.mark.parametrize("kind", TRAITS)
def test_run_closes_with_a_question_that_its_model_can_be_asked(
    rooms, monkeypatch, tmp_path, capsys, kind
):
    more = {
        "text_to_text": ', source: "{second_text}: {text}"',
        "completion": ', prompt: "{second_text}: {text}"',
        "dialogue": ", chat_template: plain",
    }.get(kind, "")
    if kind.endswith("classification"):
        more = ", labels: [a, b]"
    patches = ", max_sequence_length: 197, patches: {}" if "image" in kind else ""
    columns = "second_text: b, target_text: c, label: d, messages: e"
    source = {
        "token_classification": "kind: conll",
        "span_qa": "kind: squad",
        "image_classification": "kind: arrays",
    }.get(kind, f"kind: jsonl, columns: {{{columns}}}")
    file = tmp_path / "run.yaml"
    file.write_text(
        f"name: x\ndata:\n  source: {{{source}, path: x}}\n"
        "tokenizer: {num_sentinels: 8}\n"
        f"objective: {{kind: {kind}{more}}}\n"
        f"model: {{kind: {TRAITS[kind].models[0]}{patches}}}\n"
    )
    assert command_line.main(["run", str(file)]) == 0
    (line,) = re.findall(r"^  transbeam (predict .*)", capsys.readouterr().out, re.M)
    asked = []

    def predict_command(arguments: PredictArguments) -> None:
        assert arguments.config == file
        assert bool(arguments.images) == (kind == "image_classification")
        assert bool(arguments.messages) == (kind == "dialogue")
        texts = *arguments.texts, *arguments.messages
        given = *texts, *arguments.second_texts, *arguments.images
        asked.append(tuple(map(str, given)))

    predicting = dataclasses.replace(serving_main.PREDICT, run=predict_command)
    monkeypatch.setattr(serving_main, "COMMANDS", [predicting])
    assert serving_main.main(shlex.split(line)) == 0
    ((first, *others),) = asked
    assert len(others) == len(TRAITS[kind].inputs) - 1
    assert ("[MASK]" in first) == (kind == "masked")
    assert ("<extra_id_0>" in first) == (kind == "span_corruption")


def test_run_as_json_is_the_results_by_stage(rooms, capsys):
    assert command_line.main(["run", DEMO, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert list(results) == ["data", "train", "export", "predict"]
    assert results["data"]["records"] == 3


def test_run_stops_at_the_stage_that_fails(rooms, monkeypatch, capsys):
    failing = SimpleNamespace(train=ends_with(DataError("no records")))
    monkeypatch.setitem(sys.modules, "transbeam.trainer.__main__", failing)
    assert command_line.main(["run", DEMO, "--json"]) == 2
    assert [name for name, *_ in rooms] == ["data"]
    assert json.loads(capsys.readouterr().out) == {"error": "no records"}
