"""Runs that train adapters, or some of the weights."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ConfigError
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.run import train

STEPS = ("training.steps=6", "training.evaluate_every=3", "training.deterministic=true")


@pytest.fixture
def initial(run, tmp_path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """A file of weights to begin with, as a key of a run, and what it holds."""
    model = build_trainable(run("seed=9").config, 120)
    weights = {path: w.numpy() for path, w in variables_by_path(model).items()}
    path = tmp_path / "weights.safetensors"
    save_weights_by_path(path, weights.items())
    return f"training.initial_weights={path}", weights


def trained(invocation) -> dict[str, np.ndarray]:
    """The run as `transbeam export` reads it."""
    model = load_trained(invocation.run_folder).model
    return {path: w.numpy() for path, w in variables_by_path(model).items()}


def stop_at(step: int):
    add = TrainingLog.add

    def interrupted(self, numbers, input_seconds):
        add(self, numbers, input_seconds)
        if self.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return interrupted


def tensors_in(run_folder: Path, part: str) -> int:
    """Numbers that the last checkpoint has of a part."""
    checkpoint = max((run_folder / "training/checkpoints").iterdir())
    described = json.loads((checkpoint / "state.json").read_text())["tensors"]
    return sum(
        int(np.prod(of["shape"]))
        for name, of in described.items()
        if name.startswith(f"{part}/") and of["shape"]
    )


@eagerly
def test_adapters_from_yaml_to_a_model_that_can_be_exported(
    run, initial, monkeypatch
) -> None:
    key, before = initial
    keys = (
        *STEPS,
        key,
        "training.adaptation={kind: lora, rank: 2, also_trained: [head_bias/bias]}",
        "training.ema_decay=0.9",
        "training.accumulation=2",
    )
    whole = run(*keys, folder="whole")
    result = train(whole)
    adapters = 2 * (16 * 2 + 2 * 16)
    assert result["trained_parameters"] == adapters + 120
    assert result["parameters"] == sum(w.size for w in before.values())
    assert tensors_in(whole.run_folder, "optimizer") == 2 * (adapters + 120)
    assert tensors_in(whole.run_folder, "average") == adapters + 120
    assert (whole.run_folder / "training/adapters.safetensors").is_file()
    assert evaluate_run(whole).items() >= result["evaluation"].items()

    after = trained(whole)
    adapted = [f"encoder_layer_0/self_attention/{x}/kernel" for x in ("query", "value")]
    changed = [path for path in before if np.any(before[path] != after[path])]
    assert sorted(changed) == sorted([*adapted, "head_bias/bias"])
    for path in adapted:
        assert np.linalg.matrix_rank(after[path] - before[path], tol=1e-6) == 2

    halted = run(*keys, folder="halted")
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", stop_at(4))
        with pytest.raises(KeyboardInterrupt):
            train(halted)
    train(halted)
    for path, weight in trained(halted).items():
        np.testing.assert_array_equal(weight, after[path], err_msg=path)


@eagerly
def test_frozen_from_yaml(run, initial) -> None:
    key, before = initial
    frozen = "{kind: freeze, frozen: ['token_embedding/*', 'encoder_layer_0/*']}"
    invocation = run(*STEPS, key, f"training.adaptation={frozen}")
    train(invocation)
    after = trained(invocation)
    for path, weight in before.items():
        stays = path.startswith(("token_embedding/", "encoder_layer_0/"))
        assert np.array_equal(weight, after[path]) == stays, path


def test_a_pattern_that_fits_nothing_is_told_by_its_section(run) -> None:
    keys = "training.adaptation={kind: freeze, frozen: [encoder_layer_1/*]}"
    with pytest.raises(ConfigError, match=r"training\.adaptation: 'encoder_layer_1/"):
        train(run(keys))


def test_adapters_beside_random_weights(run) -> None:
    with pytest.raises(ConfigError, match=r"small\.yaml|--set.*init_from"):
        run("training.adaptation={kind: lora}")
