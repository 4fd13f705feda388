"""A training multiplies bfloat16 matrices in one dtype, on all workers and attempts."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.model.kernels import matmul_dtype as kernels
from transbeam.model.kernels.matmul_dtype import (
    VARIABLE,
    MatmulChoice,
    matmul_dtype,
    set_matmul_dtype,
)
from transbeam.model.kernels.matmul_measurement import DTYPES, MeasurementError
from transbeam.model.weights.training_checkpoints import list_checkpoints
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.workers import ALONE, Workers
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.loop.checkpoint import read_matmul_dtype
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.run import train
from transbeam.trainer.training_setup import agree_on_matmul

HALF = "training.precision=mixed_bfloat16"


@pytest.fixture(autouse=True)
def nothing_set() -> Iterator[None]:
    yield
    set_matmul_dtype(None)


def weights(invocation: Invocation) -> list[np.ndarray]:
    model = build_trainable(invocation.config, 120)
    path = invocation.run_folder / "training/model.weights.h5"
    keras.saving.load_weights(model, path)
    return model.get_weights()


def differ(a: Invocation, b: Invocation) -> int:
    """In how many variables two trained models do."""
    pairs = zip(weights(a), weights(b), strict=True)
    return sum(not np.array_equal(x, y) for x, y in pairs)


@pytest.fixture
def stopped(run: Callable[..., Invocation], monkeypatch) -> Callable[..., Invocation]:
    """Begins a training that is stopped after its second step of four."""

    def begin(folder: str) -> Invocation:
        add = TrainingLog.add

        def interrupted(self, numbers, input_seconds):
            add(self, numbers, input_seconds)
            if self.step == 2:
                os.kill(os.getpid(), signal.SIGINT)

        halted = run(HALF, folder=folder)
        with monkeypatch.context() as patched:
            patched.setattr(TrainingLog, "add", interrupted)
            with pytest.raises(KeyboardInterrupt):
                train(halted)
        return halted

    return begin


@eagerly
@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        ("bfloat16", "float32"),
        pytest.param(
            "float32",
            "bfloat16",
            marks=pytest.mark.thorough(instead="the same test, the other way round"),
        ),
    ],
)
def test_going_on_where_the_other_dtype_is_faster_changes_no_bit(
    run, stopped, monkeypatch, dtype, other
) -> None:
    monkeypatch.setenv(VARIABLE, other)
    elsewhere = run(HALF, folder="elsewhere")
    train(elsewhere)
    monkeypatch.setenv(VARIABLE, dtype)
    whole = run(HALF, folder="whole")
    train(whole)
    halted = stopped("halted")
    monkeypatch.setenv(VARIABLE, other)
    result = train(halted)
    assert differ(whole, halted) == 0
    assert differ(whole, elsewhere) > 0  # or the dtype would not matter
    assert result["matmul_dtype"] == dtype
    for path in list_checkpoints(halted.run_folder / "training/checkpoints"):
        assert read_matmul_dtype(path) == dtype
    set_matmul_dtype(None)
    assert evaluate_run(halted).items() >= result["evaluation"].items()
    assert matmul_dtype() == dtype  # as in the training


@eagerly
def test_without_half_precision_nothing_is_measured(run, monkeypatch) -> None:
    def never() -> MatmulChoice:
        raise AssertionError("measured")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("transbeam.trainer.training_setup.choose_matmul_dtype", never)
    monkeypatch.setattr(kernels, "measure_matmul", never)
    invocation = run("training.steps=2")
    assert train(invocation)["matmul_dtype"] is None
    [path] = list_checkpoints(invocation.run_folder / "training/checkpoints")
    assert read_matmul_dtype(path) is None


@eagerly
def test_nonsense_in_the_environment_leaves_what_was_trained(
    trained, monkeypatch
) -> None:
    folder = trained().run_folder
    before = (folder / "training/stage.json").read_bytes()
    monkeypatch.setenv(VARIABLE, "bf16")
    with pytest.raises(ConfigError, match=f"{VARIABLE}=bf16: expected float32 or"):
        train(trained(HALF))
    assert (folder / "training/stage.json").read_bytes() == before


class OfTwo(Workers):
    """One of two workers, beside one that gives `other`."""

    def __init__(self, number: int, other: int):
        super().__init__(ProcessInfo(number, 2), replicas=2)
        self.other = other

    def start_sum(self, numbers):
        others = [0, 0]
        others[1 - self.place.number] = self.other
        return [a + b for a, b in zip(numbers, others, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_workers_take_what_the_chief_chose(tmp_path, monkeypatch, dtype, other) -> None:
    chief = OfTwo(0, other=0)
    monkeypatch.setenv(VARIABLE, dtype)
    assert agree_on_matmul(tmp_path, chief, Console(quiet=True)) == dtype
    second = OfTwo(1, other=DTYPES.index(dtype))
    monkeypatch.setenv(VARIABLE, other)
    assert agree_on_matmul(tmp_path, second, Console(quiet=True)) == dtype


def test_only_the_chief_measures(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        "transbeam.trainer.training_setup.choose_matmul_dtype",
        lambda: pytest.fail("measured"),
    )
    assert agree_on_matmul(tmp_path, OfTwo(1, other=1), Console()) == "bfloat16"
    assert capsys.readouterr() == ("", "")


def test_a_measurement_that_fails_is_warned_of(tmp_path, monkeypatch, capsys) -> None:
    def fails() -> dict[str, float]:
        raise MeasurementError("did not end within 60 s")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "measure_matmul", fails)
    assert agree_on_matmul(tmp_path, ALONE, Console(quiet=True)) == "float32"
    told = capsys.readouterr().err
    assert told.startswith("warning: bfloat16 matrices are multiplied in float32: ")
    assert "did not end within 60 s" in told


def test_a_checkpoint_that_is_damaged_is_not_measured_over(tmp_path: Path) -> None:
    for text, told in (("{", "not a check"), ('{"matmul_dtype": 3}', "dtype is 3")):
        (tmp_path / "step-00000002").mkdir(exist_ok=True)
        (tmp_path / "step-00000002/state.json").write_text(text)
        with pytest.raises(ArtifactError, match=told):
            agree_on_matmul(tmp_path, ALONE, Console(quiet=True))


def test_a_checkpoint_without_a_choice_takes_that_of_now(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "bfloat16")
    (tmp_path / "step-00000002").mkdir()
    (tmp_path / "step-00000002/state.json").write_text(json.dumps({"step": 2}))
    assert agree_on_matmul(tmp_path, ALONE, Console(quiet=True)) == "bfloat16"
