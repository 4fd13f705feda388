"""Order of the measurements, their figures, and the sizes that are left out."""

import json
import re
from pathlib import Path

import pytest

import transbeam
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.system.memory import RUNTIME, Memory
from transbeam.model.cost.report import count_cost
from transbeam.trainer.measurement import measurement
from transbeam.trainer.measurement.measured_process import (
    MeasuredProcess,
    PreparedWork,
    ProcessFailedError,
)
from transbeam.trainer.measurement.measurement import group_by_memory, plan_point

ROOT = Path(__file__).parents[3]
CAUSAL = ROOT / "configs/tiny/causal.yaml"
PEAK = 1e11


class Clockwork:
    """Takes a second for each GFLOP, and one more with each round."""

    alive: list["Clockwork"] = []
    log: list[tuple[int, str]] = []
    broken: dict[int, str] = {}  # what ends at which size of the batch

    def __init__(self, run, vocabulary_size):
        self.size = run.training.batch_size
        self.point = plan_point(run, "batch", self.size, vocabulary_size)
        self.rounds = 0
        self.alive.append(self)

    def prepare(self) -> PreparedWork:
        if self.broken.get(self.size) == "prepare":
            raise ProcessFailedError("ResourceExhaustedError: no room")
        return PreparedWork("cpu", "tensorflow", PEAK)

    def seconds(self, work) -> float:
        if self.broken.get(self.size) == work:
            raise ProcessFailedError("its process was killed (signal 9)")
        self.log.append((self.size, work))
        self.rounds += work == "forward"
        return self.point.flops[work] / 1e9 + self.rounds

    def memory(self) -> int:
        return 1_000 * self.size

    def close(self) -> None:
        self.alive.remove(self)


@pytest.fixture(autouse=True)
def clockwork(monkeypatch):
    monkeypatch.setattr(measurement, "MeasuredProcess", Clockwork)
    monkeypatch.setattr(measurement, "find_memory", lambda **_: Memory("it", 10**11))
    monkeypatch.setattr(Clockwork, "log", [])
    monkeypatch.setattr(Clockwork, "broken", {})
    yield
    assert Clockwork.alive == []


def cost(capsys, *words: object):
    words = ("cost", CAUSAL, "--batch", 16, *words, "--json")
    code = transbeam.main([str(word) for word in words])
    return {**json.loads(capsys.readouterr().out), "code": code}


def test_all_sizes_take_turns(capsys):
    told = cost(capsys, "--measure", "batch", "--rounds", 3)
    found = told["measured"]["axes"]["batch"]
    assert (found["own"], found["skipped"]) == (16, [])
    assert [point["size"] for point in found["points"]] == [4, 8, 16, 32]
    # The run itself first, to see how long it takes; then each in each round.
    turn = [(size, work) for size in (4, 8, 16, 32) for work in ("forward", "step")]
    assert Clockwork.log == [(16, "step"), *3 * turn]
    flops = count_cost(load_run(CAUSAL, with_model=True))["flops"]["per_sequence"]
    for point in found["points"]:
        size = point["size"]
        forward = size * flops["forward"]["total"]
        step = forward + size * flops["backward"]["total"]
        assert point["flops"] == {"forward": forward, "step": step}
        assert point["seconds"]["step"] == pytest.approx(
            {"least": step / 1e9 + 1, "median": step / 1e9 + 2, "most": step / 1e9 + 3}
        )
        own = found["points"][2]["seconds"]["step"]["median"]
        assert point["expected_seconds"]["step"] == pytest.approx(own * size / 16)
        assert point["mfu"] == pytest.approx(step / (step / 1e9 + 2) / PEAK)
        assert point["memory"] == 1_000 * size
    # The counted memory is that of `transbeam cost`.
    peak = told["memory"]["training"]["peak"]
    assert found["points"][2]["expected_memory"] == peak


def test_every_axis_by_default_and_the_tables(capsys, tmp_path):
    picture = tmp_path / "cost.svg"
    words = ["cost", str(CAUSAL), "--measure", "--picture", str(picture)]
    assert transbeam.main(words) == 0
    said = capsys.readouterr().out
    tables = said[
        said.index("Measured on cpu with tensorflow in float32, medians of 5") :
    ]
    assert max(map(len, tables.splitlines()[:-1])) <= 88
    for title in ("tokens per record", "blocks", "hidden width", "records per update"):
        assert title in said
        assert title in picture.read_text()
    assert len(re.findall(r"^  \* ", said, re.MULTILINE)) == 4  # the run, in each
    assert picture.read_text().startswith("<svg")


def test_what_is_too_large_or_too_slow_is_left_out(capsys, monkeypatch):
    own, double = (
        plan_point(load_run(CAUSAL, with_model=True), "batch", size, 1_024)
        for size in (16, 32)
    )
    room = RUNTIME + (own.memory + double.memory) // 2
    monkeypatch.setattr(measurement, "find_memory", lambda **_: Memory("it", room))
    found = cost(capsys, "--measure", "batch")["measured"]["axes"]["batch"]
    assert [point["size"] for point in found["points"]] == [4, 8, 16]
    (left_out,) = found["skipped"]
    assert left_out["size"] == 32
    assert left_out["reason"].startswith("training takes about 0.0")

    monkeypatch.setattr(measurement, "find_memory", lambda **_: None)
    monkeypatch.setattr(measurement, "LONGEST_STEP", 1.5 * (own.flops["step"] / 1e9))
    found = cost(capsys, "--measure", "batch")["measured"]["axes"]["batch"]
    assert [x["size"] for x in found["skipped"]] == [32]
    assert "an update takes about 0:0" in found["skipped"][0]["reason"]


def test_what_does_not_fit_at_all_is_refused_with_advice(capsys, monkeypatch):
    memory = Memory("it", RUNTIME + 1_000)
    monkeypatch.setattr(measurement, "find_memory", lambda **_: memory)
    told = cost(capsys, "--measure", "batch")
    assert told["code"] == 2
    assert "training.accumulation=" in told["error"]
    assert Clockwork.log == []


@pytest.mark.parametrize("when", ["prepare", "forward", "step"])
def test_a_process_that_fails_leaves_the_others(capsys, when):
    Clockwork.broken[32] = when
    found = cost(capsys, "--measure", "batch")["measured"]["axes"]["batch"]
    assert [point["size"] for point in found["points"]] == [4, 8, 16]
    (failed,) = found["skipped"]
    assert failed["size"] == 32
    assert failed["reason"] in (
        "ResourceExhaustedError: no room",
        "its process was killed (signal 9)",
    )


def test_the_run_itself_has_to_run(capsys):
    Clockwork.broken[16] = "prepare"
    told = cost(capsys, "--measure", "batch")
    assert told["code"] == 2
    assert "cannot be measured: ResourceExhaustedError: no room" in told["error"]


def test_processes_end_with_the_command(monkeypatch):
    def interrupted(self, work):
        raise KeyboardInterrupt

    run = load_run(CAUSAL, with_model=True)
    monkeypatch.setattr(Clockwork, "seconds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measurement.measure_cost(run, 1_024, ["batch"], Console(quiet=True), rounds=3)


def test_as_many_at_a_time_as_fit():
    run = load_run(CAUSAL, with_model=True)
    points = [plan_point(run, "batch", size, 1_024) for size in (4, 8, 16, 32)]
    points += [plan_point(run, "depth", depth, 1_024) for depth in (1, 2)]

    def groups(memory: Memory | None) -> list[list[int]]:
        return [[x.size for x in group] for group in group_by_memory(points, memory)]

    assert groups(None) == [[4, 8, 16, 32], [1, 2]]
    pair = 2 * RUNTIME + 2 * max(point.memory for point in points)
    assert groups(Memory("it", pair)) == [[4, 8], [16, 32], [1, 2]]
    assert groups(Memory("it", 1)) == [[4], [8], [16], [32], [1], [2]]
    # An accelerator holds no libraries.
    on_device = sum(point.memory for point in points[:3])
    card = Memory("a card", on_device, is_shared=False)
    assert groups(card)[:2] == [[4, 8, 16], [32]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--measure", "lenght"], "Did you mean 'length'?"),
        (["--measure", "length, batch"], "' batch' is not one of"),
        (["--picture", "cost.svg"], "Add --measure"),
        (["--measure", "--picture", "cost.png"], "expected a file.svg"),
        (["--measure", "--picture", "nowhere/cost.svg"], "no folder nowhere"),
        (["--measure", "--rounds", "2"], "at least 3 are needed"),
        (["--measure", "--length", "999"], "max_sequence_length=64"),
    ],
)
def test_wrong_options(capsys, words, said):
    assert transbeam.main(["cost", str(CAUSAL), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.thorough(instead="test_all_sizes_take_turns, test_an_update_of_each_kind")
def test_a_real_process(small_data):
    """One model in a process of its own, which a second one does not share."""
    run = load_run(small_data / "small.yaml", with_model=True)
    process = MeasuredProcess(run, 120)
    try:
        prepared = process.prepare()
        assert prepared.device == "cpu"
        assert prepared.peak_flops > 1e8
        assert 0 < process.seconds("forward") < 10
        assert 0 < process.seconds("step") < 10
        assert 10**5 < process.memory() < 10**10
        with pytest.raises(ProcessFailedError, match="KeyError: 'backward'"):
            process.seconds("backward")
        process._process.kill()
        with pytest.raises(ProcessFailedError, match=r"was killed \(signal 9\)"):
            process.seconds("step")
    finally:
        process.close()
    broken = "training.pruning={sparsity: 0.5, end_step: 1, targets: ['*/kernal']}"
    run = load_run(small_data / "small.yaml", [broken], with_model=True)
    process = MeasuredProcess(run, 120)
    try:
        with pytest.raises(UserError, match="fits the path of no weight"):
            process.prepare()
    finally:
        process.close()
