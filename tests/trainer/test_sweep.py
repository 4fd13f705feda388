"""A sweep: which runs there are, and what is said of them."""

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.pages.pictures import COLORS
from transbeam.pipeline.stage import data_inputs, data_stage
from transbeam.trainer import planned_runs as module
from transbeam.trainer.__main__ import main
from transbeam.trainer.base.training_stage import training_inputs
from transbeam.trainer.sweep import sweep

FILE = """
name: two
base: configs/tiny/masked.yaml
set: {training.steps: 30}
grid: {training.schedule.peak: [1e-3, 2e-3], data.sequence_length: [32, 64]}
"""


class Processes:
    """Plays the commands of a sweep: a run's loss is its length less its peak."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails = ""
        self.stdout = json.dumps({"error": "no <b>corpus</b>"})
        self.stops_after = math.inf
        self.validations = 1

    def __call__(self, words: list[str]) -> tuple[int, str]:
        self.commands.append(words)
        if len(self.commands) > self.stops_after:
            raise KeyboardInterrupt
        *program, name, base, _, folder = words[:8]
        settings = words[8:]
        assert program[1:] == ["-P", "-m", "transbeam"]
        assert "--json" in settings
        given = itertools.pairwise(settings)
        overrides = [value for key, value in given if key == "--set"]
        if self.fails and any(self.fails in override for override in overrides):
            return 2, self.stdout
        config = load_run(base, overrides, with_model=True)
        if name == "data":
            stage = data_stage(Path(folder))
            inputs = {**data_inputs(config), "corpus": "as it is"}
            result: dict[str, Any] = {"records_sha256": "of its records"}
        else:
            stage = training_stage(Path(folder))
            inputs = training_inputs(config, "of its records", stage.inputs())
            result = self.trained(config)
        stage.begin(inputs)
        if name == "train":
            self.write_metrics(stage.path, result["evaluation"]["loss"])
        stage.finish(inputs, result)
        return 0, ""

    def trained(self, config: RunConfig) -> dict[str, Any]:
        keys = flatten(config)
        loss = keys["data.sequence_length"] / 100 - keys["training.schedule.peak"]
        scores = {"accuracy": {"score": 0.5}, "perplexity": {"score": None}}
        result = {"evaluation": {"loss": loss, "scores": scores}, "parameters": 9}
        return result | {"seconds": 61.0, "tokens_per_second": 7}

    def write_metrics(self, folder: Path, loss: float) -> None:
        rows: list[dict[str, float]] = [{"step": 5, "loss": 9.0}]
        for number in range(self.validations):
            step = 30 - 10 * (self.validations - 1 - number)
            rows.append({"step": step, "val_loss": loss + (30 - step) / 10})
        lines = (json.dumps(row) + "\n" for row in rows)
        (folder / "metrics.jsonl").write_text("".join(lines), "utf-8")


@pytest.fixture
def processes(monkeypatch) -> Processes:
    played = Processes()
    monkeypatch.setattr(module, "run_command", played)
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
    best_row = r"<tr class=best><td>no\. 1</td>\s*<td>2e-3</td>"
    assert re.search(best_row, page)
    written = json.loads((tmp_path / "runs/sweep.json").read_text())
    assert written["runs"] == result["runs"]


def test_records_of_the_same_keys_are_shared(tmp_path, processes) -> None:
    result = run(tmp_path)
    first, _, third, _ = (Path(run["run"]) for run in result["runs"])
    (first / "data/train.tfrecord").write_text("records")
    shutil.rmtree(third)
    run(tmp_path)
    assert (third / "data/train.tfrecord").samefile(first / "data/train.tfrecord")


def told(tmp_path: Path) -> list[dict[str, Any]]:
    return json.loads((tmp_path / "runs/sweep.json").read_text())["runs"]


def stop(tmp_path: Path, processes: Processes, after: int, text: str = FILE) -> None:
    """Starts a sweep again, which is stopped after so many commands more."""
    processes.stops_after = len(processes.commands) + after
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, text)


def test_started_again_it_tells_of_all_runs_from_the_first_on(
    tmp_path, processes
) -> None:
    run(tmp_path)
    more = FILE.replace("[32, 64]", "[16, 32, 64]")
    stop(tmp_path, processes, 0, more)
    assert len(told(tmp_path)) == 4
    stop(tmp_path, processes, 2, more)
    assert len(told(tmp_path)) == 5


def test_a_run_made_from_other_inputs_is_not_told_of(tmp_path, processes) -> None:
    base = tmp_path / "base.yaml"
    text = FILE.replace("configs/tiny/masked.yaml", str(base))
    tiny = Path("configs/tiny/masked.yaml").read_text("utf-8")
    for changed in (
        tiny,
        tiny.replace("hidden_dim: 64", "hidden_dim: 32"),  # of the training
        tiny.replace("vocabulary_size: 1024", "vocabulary_size: 512"),  # of the records
    ):
        base.write_text(changed, "utf-8")
        stop(tmp_path, processes, 2, text)
        assert len(told(tmp_path)) == 1
        processes.stops_after = math.inf
        assert len(run(tmp_path, text)["runs"]) == 4


@pytest.mark.parametrize("stage", ["data", "training"])
def test_a_run_that_cannot_be_read_is_left_to_its_commands(
    tmp_path, processes, stage
) -> None:
    first, *_ = run(tmp_path)["runs"]
    (Path(first["run"]) / stage / "stage.json").write_text("{")
    processes.fails = "peak=1e-3"
    with pytest.raises(UserError, match="2 of 4 runs failed"):
        run(tmp_path)
    shutil.rmtree(Path(first["run"]) / "data")
    with pytest.raises(UserError, match="2 of 4 runs failed"):
        run(tmp_path)


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
        module.run_command([sys.executable, "-c", CHILD, str(file)])
    thread.join()
    assert file.read_text() == "saved"


def test_a_stop_while_the_training_starts_reaches_it(tmp_path, monkeypatch) -> None:
    file, popen = tmp_path / "told", subprocess.Popen

    def start(*words, **options) -> subprocess.Popen:
        process = popen(*words, **options)
        while not (file.exists() and file.read_text() == "ready"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        module.run_command([sys.executable, "-c", CHILD, str(file)])
    assert file.read_text() == "saved"


FAILING = """
import json, sys
print("a line for people", file=sys.stderr)
print(json.dumps({"error": "caf\u00e9.txt: no such file"}))
sys.exit(2)
"""


def test_a_command_says_why_it_failed() -> None:
    code, told = module.run_command([sys.executable, "-c", FAILING])
    assert (code, module._reason(told)) == (2, "café.txt: no such file")
    code, told = module.run_command([sys.executable, "-c", "import os; os.abort()"])
    assert (code, module._reason(told)) == (-signal.SIGABRT, "it did not say why")


def test_goes_on_after_a_run_that_failed_and_says_which_and_why(
    tmp_path, processes
) -> None:
    processes.fails = "peak=1e-3"
    with pytest.raises(UserError) as caught:
        run(tmp_path)
    reason = "data ended with exit code 2: no <b>corpus</b>"
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/runs/sweep.html: 2 of 4 runs failed:",
        f"  training.schedule.peak=1e-3 data.sequence_length=32: {reason}",
        f"  training.schedule.peak=1e-3 data.sequence_length=64: {reason}",
        "The same command tries these again, and keeps what is finished.",
    ]
    assert [of["error"] for of in told(tmp_path)] == [reason] * 2 + [None] * 2
    page = (tmp_path / "runs/sweep.html").read_text("utf-8")
    assert "; 2 of them failed." in page
    assert page.count("exit code 2: no &lt;b&gt;corpus&lt;/b&gt;</td>") == 2
    processes.fails = ""
    assert {of["error"] for of in run(tmp_path)["runs"]} == {None}


def test_the_command_ends_with_exit_code_2_after_runs_failed(
    tmp_path, processes, capsys
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(FILE.replace("[1e-3, 2e-3]", f"{list(range(1, 7))}"), "utf-8")
    processes.fails = "peak"
    assert main(["sweep", str(file), "--run", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert "sweep.html: 12 of 12 runs failed:" in error
    assert error.count("no <b>corpus</b>") == 10
    assert "and 2 more, which the page lists" in error


def marked(page: str, color: str) -> list[tuple[float, float]]:
    """Returns the places of a curve's marks in the axes."""
    groups = "".join(re.findall(r"<g clip-path=.*?</g>", page, re.S))
    found = re.findall(
        rf'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill: {color}', groups
    )
    return [(float(x), float(y)) for x, y in found]


def test_the_page_shows_the_validations_of_the_runs(tmp_path, processes) -> None:
    page = Path(run(tmp_path)["page"]).read_text("utf-8").partition("</svg>")[0]
    losses = np.array([0.318, 0.319, 0.638, 0.639])
    heights = [y for color in COLORS[:4] for _, y in marked(page, color)]
    assert len(heights) == 4
    shares = (np.array(heights) - heights[0]) / (heights[-1] - heights[0])
    expected = (losses - losses[0]) / (losses[-1] - losses[0])
    np.testing.assert_allclose(shares, expected, atol=1e-3)

    shutil.rmtree(tmp_path / "runs")
    processes.validations = 3
    page = Path(run(tmp_path)["page"]).read_text("utf-8").partition("</svg>")[0]
    assert [len(marked(page, color)) for color in COLORS[:5]] == [3, 3, 3, 3, 0]
    (x0, y0), (x1, y1), (x2, y2) = marked(page, COLORS[0])
    assert x1 - x0 == pytest.approx(x2 - x1)  # steps 10, 20 and 30
    assert y0 < y1 < y2  # downwards is less


def test_a_combination_that_is_refused_stops_it_before_the_first(
    tmp_path, processes
) -> None:
    with pytest.raises(ConfigError, match="sequence_length"):
        run(tmp_path, FILE.replace("[32, 64]", "[32, 4]"))
    assert processes.commands == []
