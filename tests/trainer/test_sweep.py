"""A sweep: which runs there are, and what is said of them."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from configs.console import Console
from configs.errors import ConfigError, UserError
from configs.run_folder import Stage
from trainer import sweep as module
from trainer.sweep import sweep

FILE = """
name: two
base: configs/tiny/masked.yaml
set: {training.steps: 30}
grid: {training.schedule.peak: [1e-3, 2e-3], data.sequence_length: [32, 64]}
"""


class Processes:
    """Plays the commands of a sweep: a run's loss is its length divided by its peak."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails = ""

    def __call__(self, words) -> int:
        self.commands.append(words)
        _, script, stage, _, _, folder, *overrides = words
        assert Path(script).is_file()
        folder = Path(folder) / ("data" if stage == "data" else "training")
        if self.fails and any(self.fails in word for word in overrides):
            return 2
        folder.mkdir(parents=True, exist_ok=True)
        told = dict(word.split("=") for word in overrides if "=" in word)
        loss = float(told["data.sequence_length"]) / 100
        loss -= float(told["training.schedule.peak"])
        scores = {"accuracy": {"score": 0.5}, "perplexity": {"score": None}}
        result = {"evaluation": {"loss": loss, "scores": scores}, "parameters": 9}
        result |= {"seconds": 61.0, "tokens_per_second": 7}
        (folder / "stage.json").write_text(json.dumps({"result": result}))
        return 0


@pytest.fixture
def processes(monkeypatch) -> Processes:
    played = Processes()
    monkeypatch.setattr(module, "_wait", played)
    monkeypatch.setattr(
        Stage,
        "load",
        lambda self: json.loads((self.path / "stage.json").read_text()),
    )
    return played


def run(tmp_path: Path, text: str = FILE):
    file = tmp_path / "sweep.yaml"
    file.write_text(text, "utf-8")
    return sweep(file, tmp_path / "runs", Console(quiet=True))


def test_runs_all_and_finds_the_best(tmp_path, processes) -> None:
    result = run(tmp_path)
    assert len(result["runs"]) == 4
    best = ["training.schedule.peak=2e-3", "data.sequence_length=32"]
    assert result["best"]["replaced"] == best
    page = Path(result["page"]).read_text()
    assert page.index("<td>2e-3</td><td>32</td>") < page.index("<td>1e-3</td><td>32")
    assert "<tr class='best'><td>no. 1</td><td>2e-3</td>" in page
    written = json.loads((tmp_path / "runs/sweep.json").read_text())
    assert written["runs"] == result["runs"]


def test_records_of_the_same_keys_are_shared(tmp_path, processes) -> None:
    result = run(tmp_path)
    first, _, third, _ = (Path(run["run"]) for run in result["runs"])
    (first / "data/train.tfrecord").write_text("records")
    shutil.rmtree(third)
    run(tmp_path)
    assert (third / "data/train.tfrecord").samefile(first / "data/train.tfrecord")


def test_started_again_it_tells_of_all_runs_from_the_first_on(
    tmp_path, processes, monkeypatch
) -> None:
    run(tmp_path)

    def stopped(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_wait", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, FILE.replace("[32, 64]", "[16, 32, 64]"))
    told = json.loads((tmp_path / "runs/sweep.json").read_text())
    assert len(told["runs"]) == 4

    def again(words):
        processes(words)
        if len(processes.commands) > 9:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(module, "_wait", again)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    told = json.loads((tmp_path / "runs/sweep.json").read_text())
    assert len(told["runs"]) == 4


CHILD = """
import pathlib, signal, sys, time
def stop(*_):
    time.sleep(0.5)
    pathlib.Path(sys.argv[1]).write_text("saved")
    sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
pathlib.Path(sys.argv[1]).write_text("ready")
time.sleep(60)
"""


def test_a_stop_waits_for_the_training_to_save(tmp_path) -> None:
    file, parent = tmp_path / "told", os.getpid()

    def ask() -> None:
        while not (file.exists() and file.read_text() == "ready"):
            time.sleep(0.01)
        os.kill(parent, signal.SIGTERM)

    thread = threading.Thread(target=ask)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        module._wait([sys.executable, "-c", CHILD, str(file)])
    thread.join()
    assert file.read_text() == "saved"


def test_goes_on_after_a_run_that_failed(tmp_path, processes) -> None:
    processes.fails = "peak=1e-3"
    result = run(tmp_path)
    errors = [run["error"] for run in result["runs"]]
    assert errors == ["data ended with exit code 2"] * 2 + [None] * 2
    processes.fails = "peak"
    with pytest.raises(UserError, match="no run of the sweep ended well"):
        run(tmp_path)


def test_a_combination_that_is_refused_stops_it_before_the_first(
    tmp_path, processes
) -> None:
    with pytest.raises(ConfigError, match="sequence_length"):
        run(tmp_path, FILE.replace("[32, 64]", "[32, 4]"))
    assert processes.commands == []
