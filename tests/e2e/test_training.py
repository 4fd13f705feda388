"""From records to a trained model, for every objective, however often it is killed."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.cases import CASES, finished
from tests.harness.stages import copy_of
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.traits import TRAITS
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.run import train

MODEL = """
model:
  kind: {kind}
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 64
  dropout: 0.1
  attention: {{kind: full, num_heads: 2, dropout: 0.1}}
  feedforward: {{kind: dense, intermediate_dim: 32}}
"""
TRAINING = """
training:
  steps: 11
  batch_size: 8
  schedule: {kind: linear, peak: 0.02, warmup_steps: 2}
  evaluate_every: 3
  log_every: 1
  ema_decay: 0.5
  deterministic: true
  samples: 0
"""


class Killed(Exception):
    """The process is gone, as far as the test can play it."""


# One of each way to be read, masked or asked; the others are thorough.
QUICK = ("masked_dynamic",)
THOROUGH = pytest.mark.thorough(instead="test_trains_and_says_how_well")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in QUICK else THOROUGH) for name in CASES
    ],
)
def records(request, tmp_path_factory) -> Invocation:
    """A finished data job of each case, and a model and a training for it."""
    made = finished(request.param)
    kind = made.config.objective.kind
    text, given = made.config_file.read_text("utf-8"), CASES[request.param].model
    own = given.removeprefix("kind: ") or TRAITS[kind].models[0]
    model = MODEL.format(kind=own.replace(", ", "\n  "))
    text = text.replace(f"model: {{{given}}}\n", "")
    if TRAITS[kind].has_segments and not given:
        model += "  num_segments: 2\n"
    if kind == "image_classification":
        model = model.replace("  max_sequence_length: 64\n", "")
        model += "  patches: {image_size: 4, patch_size: 2}\n"
    file = tmp_path_factory.mktemp("training") / f"{request.param}-training.yaml"
    file.write_text(text + model + TRAINING, "utf-8")
    return replace(made, config=load_run(file), config_file=file)


@pytest.fixture
def copy(records: Invocation, tmp_path: Path) -> Callable[[str], Invocation]:
    """The same run in another folder."""

    def make(name: str) -> Invocation:
        copy_of(records.run_folder, tmp_path / name)
        return replace(records, run_folder=tmp_path / name)

    return make


def last_state(run: Invocation) -> bytes:
    """All that the last checkpoint holds: weights, optimizer, averages, counters."""
    checkpoints = run.run_folder / "training/checkpoints"
    return (checkpoints / "step-00000011/state.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(records: Invocation, tmp_path_factory) -> Invocation:
    """A training that nothing stopped; it is not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    copy_of(records.run_folder, folder)
    whole = replace(records, run_folder=folder)
    training = replace(whole.config.training, samples=2)
    train(replace(whole, config=replace(whole.config, training=training)))
    return whole


def test_trains_and_says_how_well(whole) -> None:
    result = training_stage(whole.run_folder).load()["result"]
    page = (whole.run_folder / "training/report.html").read_text("utf-8")
    assert page.count("<h2>Samples</h2>") == 1
    assert 1 <= page.count("<div class='example'>") <= 2
    assert result["evaluation"]["predictions"] > 0
    assert result["skipped_steps"] == 0
    again, first = evaluate_run(whole), result["evaluation"]
    again["scores"] = {name: again["scores"][name] for name in first["scores"]}
    assert again.items() >= first.items()
    evaluated = whole.run_folder / "evaluation/validation"
    assert "</html>" in (evaluated / "report.html").read_text("utf-8")
    for line in (evaluated / "errors.jsonl").read_text("utf-8").splitlines():
        told = json.loads(line).keys()
        assert {"source", "target", "guess"} <= told
        assert ("error" in told) != ("nats" in told)


def test_killed_by_the_system_it_goes_on_as_if_nothing_had_been(copy, whole) -> None:
    """A process is killed after a step that has no checkpoint, and another goes on."""
    killed = copy("killed")
    assert command(killed, "-c", KILLED_AT_8).wait() == -signal.SIGKILL
    assert not (killed.run_folder / "training/stage.json").exists()
    checkpoints = (killed.run_folder / "training/checkpoints").glob("step-*")
    assert "step-00000003" in [path.name for path in checkpoints]
    train(killed)
    assert last_state(killed) == last_state(whole)
    assert numbers(killed) == numbers(whole)


@pytest.mark.thorough(
    instead="test_killed_by_the_system_it_goes_on_as_if_nothing_had_been"
)
def test_goes_on_as_if_nothing_had_been(copy, whole, monkeypatch) -> None:
    add = TrainingLog.add
    killed = copy("killed")
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", killing_at(8, add))
        with pytest.raises(Killed):
            train(killed)
    train(killed)
    assert last_state(killed) == last_state(whole)
    assert numbers(killed) == numbers(whole)


def killing_at(step: int, add: Callable) -> Callable:
    def killed(self, given, input_seconds):
        add(self, given, input_seconds)
        if self.step == step:
            raise Killed

    return killed


def numbers(run: Invocation) -> list[dict[str, float]]:
    """The log without what the clock had a say in."""
    clock = ("seconds", "tokens_per_second", "input_wait", "mfu")
    rows = read_metrics(run.run_folder / "training")
    return [{k: v for k, v in row.items() if k not in clock} for row in rows]


@pytest.mark.thorough(
    instead="test_killed_by_the_system_it_goes_on_as_if_nothing_had_been, "
    "test_a_stop_and_going_on_give_the_same_weights"
)
def test_stopped_and_killed_by_the_system_at_random_steps(copy) -> None:
    whole, killed = copy("whole"), copy("killed")
    assert command(whole).wait() == 0
    log = killed.run_folder / "training/metrics.jsonl"

    process = command(killed)
    wait_for(process, log, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    saved = max((killed.run_folder / "training/checkpoints").iterdir())
    assert saved.name == f"step-{read_metrics(log.parent)[-1]['step']:08d}"

    chance = random.Random(killed.config_file.stem)
    for last in sorted(chance.sample(range(2, 11), 2)):
        log.unlink(missing_ok=True)  # of the process before
        process = command(killed)
        wait_for(process, log, last)
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it had ended before"
    assert command(killed).wait() == 0
    assert last_state(killed) == last_state(whole)


KILLED_AT_8 = """
import os, signal, sys
from transbeam.trainer.__main__ import main
from transbeam.trainer.loop.metrics_log import TrainingLog
add = TrainingLog.add
def killed(self, *given):
    add(self, *given)
    if self.step == 8:
        os.kill(os.getpid(), signal.SIGKILL)
TrainingLog.add = killed
main(sys.argv[1:])
"""


def command(run: Invocation, *program: str) -> subprocess.Popen:
    """`transbeam train`, or a program like it, in a process of its own."""
    arguments = ["train", str(run.config_file), "--run", str(run.run_folder), "--quiet"]
    program = program or ("-m", "transbeam.trainer")
    return subprocess.Popen([sys.executable, *program, *arguments])


def wait_for(process: subprocess.Popen, log: Path, step: int) -> None:
    """Until the log has a line of the step, or the process has ended."""
    while process.poll() is None:
        lines = log.read_text().splitlines() if log.is_file() else []
        if lines and lines[-1].endswith("}") and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.005)
