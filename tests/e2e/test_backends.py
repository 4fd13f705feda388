"""Every command under every backend: it works, or it refuses in one line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.processes import environment, small_run, start, stop, transbeam
from tests.harness.stages import copy_of
from tests.trainer.importing.hugging_face_checkpoints import write_bert
from transbeam import __main__ as program
from transbeam.configs.base.atomic_files import write_json

SWEEP = """
name: one
base: small.yaml
grid:
  training.steps: [2]
"""


SUITE = """
name: rows
rows:
  - name: one
    base: small.yaml
    run: {training: {steps: 2}}
    scores: {accuracy: validation.accuracy}
"""


@dataclass(frozen=True)
class Row:
    """A command on the small run.

    Attributes:
        arguments: Words of the command line.
        makes: The file that it leaves, which was not there before.
        says: Words of its output.
        trains: It runs on a backend of the user's choice, and so refuses some.
    """

    arguments: str
    makes: str | None = None
    says: str = ""
    trains: bool = False


ROWS = [
    Row("explain training.steps", says="training.steps"),
    Row("check small.yaml --machine", says="machine"),
    Row("cost small.yaml", says="FLOPs"),
    Row("data small.yaml --run runs/new", makes="runs/new/data/stage.json"),
    Row("tokenize runs/small corpus.txt", says="the  model  reads"),
    Row("score small.yaml --output rows.jsonl", makes="rows.jsonl"),
    Row(
        "train small.yaml --set training.steps=3",
        makes="runs/small/training/checkpoints/step-00000003/state.json",
        trains=True,
    ),
    Row(
        "evaluate small.yaml",
        makes="runs/small/evaluation/validation/report.html",
        trains=True,
    ),
    Row(
        "evaluate small.yaml --model runs/small/export/saved_model",
        says="validation loss",
        trains=True,
    ),
    Row(
        "analyze runs/small --part heads --max-texts 4",
        makes="runs/small/analysis/report.html",
    ),
    Row("sweep sweep.yaml", makes="runs/one/sweep.html", trains=True),
    Row("suite suite.yaml", makes="runs/rows/suite.html", trains=True),
    Row(
        "import published",
        makes="runs/published/imported/weights.safetensors",
        trains=True,
    ),
    Row(
        "trim runs/small --run runs/new --set data.source.path=few.txt",
        makes="runs/new/imported/weights.safetensors",
        trains=True,
    ),
    Row(
        "prune runs/small --run runs/new --heads 1 --batches 1",
        makes="runs/new/imported/weights.safetensors",
    ),
    Row(
        "export small.yaml --set export.version=2",
        makes="runs/small/export/saved_model/2/saved_model.pb",
    ),
    Row("export small.yaml --target phone", makes="runs/small/phone/README.md"),
    Row("predict small.yaml --text [MASK]", says="→"),
    Row("serve small.yaml --dry-run", says="is ready to serve"),
    Row("studio --help", says="Serves a page"),  # else it serves until it is stopped
    Row(
        "loadtest SERVER --name small --text [MASK] --clients 1 --seconds 1",
        says="answers",
    ),
    Row("deploy small.yaml", makes="runs/small/deploy/README.md"),
    Row(
        "run small.yaml --run runs/new",
        makes="runs/new/export/saved_model/1/saved_model.pb",
        says="The run 'small' is done.",
        trains=True,
    ),
]
# None: neither the environment nor a file of Keras's says anything.
BACKENDS = [None, "tensorflow", "jax", "torch"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the small run, and what some commands need beside it."""
    folder = copy_of(small_run(), tmp_path / "copy")
    (folder / "sweep.yaml").write_text(SWEEP, "utf-8")
    (folder / "suite.yaml").write_text(SUITE, "utf-8")
    (folder / "few.txt").write_text("the model reads\n", "utf-8")
    write_bert(folder / "published", "bert")
    return folder


@pytest.fixture
def variables(tmp_path: Path, monkeypatch) -> dict[str, str]:
    """An environment in which nobody has chosen a backend."""
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    return {"KERAS_HOME": str(tmp_path / "keras")}


def test_every_command_has_a_row() -> None:
    commands = {row.arguments.split()[0] for row in ROWS}
    assert commands == {*program.ROOMS, "run"}


@pytest.mark.thorough(
    instead="test_every_command_runs_under_either, "
    "test_what_nothing_trains_on_is_refused_or_left_aside, "
    "test_a_run_on_jax_exports_and_predicts_on_tensorflow, "
    "test_an_export_is_made_where_jax_was_chosen"
)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.arguments)
def test_it_works_or_refuses(row: Row, backend: str | None, folder, variables) -> None:
    if backend is not None:
        variables["KERAS_BACKEND"] = backend
    before = contents(folder)
    assert row.makes not in before
    with command_line(row, folder, variables) as words:
        done = transbeam(folder, *words, **variables)
    if backend == "torch" and row.trains:
        refused(done, words[0])
        assert contents(folder) == before
        return
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert row.says in done.stdout
    assert row.makes is None or row.makes in contents(folder)


@contextmanager
def command_line(row: Row, folder: Path, variables) -> Iterator[list[str]]:
    """The words of a row, with a server under the same backend where one is asked."""
    words = row.arguments.split()
    if "SERVER" not in words:
        yield words
        return
    ports = ["--port=0", "--rest-port=0"]
    with start(folder, "serve", "small.yaml", "--json", *ports, **variables) as server:
        try:
            told = ""
            while not told.endswith("}\n"):
                line = server.stdout.readline()
                assert line, server.stderr.read()
                told += line
            rest = json.loads(told)["rest"]
            yield [rest if word == "SERVER" else word for word in words]
            os.killpg(server.pid, signal.SIGINT)
            _, stderr = server.communicate(timeout=60)
            assert server.returncode == 0, stderr
            assert "Traceback" not in stderr
        finally:
            server.kill()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(done: subprocess.CompletedProcess[str], command: str) -> None:
    """The command ended in one line that says what it would run on."""
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"error: KERAS_BACKEND=torch: `transbeam {command}` runs on tensorflow or jax."
    )


def start_on_jax(folder: Path, variables, stages: str) -> subprocess.Popen[str]:
    """A run on JAX with other stages, which a program puts in place of its own."""
    (folder / "program.py").write_text(stages + AS_A_COMMAND, "utf-8")
    return subprocess.Popen(
        [sys.executable, "program.py", "run", "small.yaml", "--json", "--quiet"],
        cwd=folder,
        env=environment(**variables, KERAS_BACKEND="jax"),
        stdout=subprocess.PIPE,
        text=True,
    )


AS_A_COMMAND = """
if __name__ == "__main__":  # in the processes that it starts it is not
    raise SystemExit(command_line.main())
"""
STAGES_THAT_TELL = """
import os
from transbeam import __main__ as command_line, stage_process

class Room:
    def __getattr__(self, stage):
        return lambda invocation: {"on": os.environ["KERAS_BACKEND"]}

stage_process.load_room = lambda module: Room()
"""


def test_a_run_on_jax_exports_and_predicts_on_tensorflow(folder, variables) -> None:
    process = start_on_jax(folder, variables, STAGES_THAT_TELL)
    stdout, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(stdout) == {
        "data": {"on": "jax"},
        "train": {"on": "jax"},
        "export": {"on": "tensorflow"},
        "predict": {"on": "tensorflow"},
    }


def test_an_export_is_made_where_jax_was_chosen(folder, variables) -> None:
    """JAX can make none: its types are numbers, and ours takes texts."""
    words = ["export", "small.yaml", "--json", "--set", "export.tflite=[]"]
    done = transbeam(folder, *words, **variables, KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stderr
    assert all(row["passed"] for row in json.loads(done.stdout)["parity"])


STAGE_THAT_LASTS = """
import time
from transbeam import __main__ as command_line, stage_process

def last(invocation):
    print("here", flush=True)
    time.sleep(60)

class Room:
    data = train = staticmethod(lambda invocation: {})
    export = staticmethod(last)

stage_process.load_room = lambda module: Room
"""


def test_a_stage_in_another_process_ends_with_a_killed_run(folder, variables) -> None:
    process = start_on_jax(folder, variables, STAGE_THAT_LASTS)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.kill()
    process.communicate(timeout=30)  # until nobody has the pipe open any more


@pytest.mark.thorough(
    instead="test_what_stopped_a_stage_in_another_process_is_told_in_this"
)
def test_ctrl_c_in_the_export_of_a_run_on_jax(folder, variables) -> None:
    words = ["run", "small.yaml", "--set", "export.tflite=[]"]
    process = start(folder, *words, **variables, KERAS_BACKEND="jax")
    while not (line := process.stdout.readline()).startswith("writing the SavedModel"):
        assert line, process.stderr.read()
    stop(process, folder)
    assert "re-exported" in transbeam(folder, *words).stdout


def test_torch_is_refused_before_anything_is_written(folder, variables) -> None:
    before = contents(folder)
    words = ["run", "small.yaml", "--set", "training.steps=2"]
    refused(transbeam(folder, *words, **variables, KERAS_BACKEND="torch"), "run")
    assert contents(folder) == before


def test_keras_own_file_is_heard(folder, variables) -> None:
    home = Path(variables["KERAS_HOME"])
    home.mkdir()
    write_json(home / "keras.json", {"backend": "torch"})
    done = transbeam(folder, "train", "small.yaml", **variables)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"{home / 'keras.json'}: backend=torch: " in line
