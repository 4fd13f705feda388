"""Weights that become zero while a model trains."""

import json

import numpy as np
import pytest

from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ConfigError
from transbeam.model.weights.assign import variables_by_path
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.loop.weight_pruner import WeightPruner
from transbeam.trainer.run import train

KEYS = (
    "training.pruning={sparsity: 0.75, begin_step: 1, end_step: 5, interval: 2}",
    "training.steps=6",
    "training.evaluate_every=2",
    "training.log_every=1",
    "training.keep_checkpoints=3",
    "training.ema_decay=0.9",
)
SHARES = {1: 0.0, 3: 0.75 * (1 - 0.5**3), 5: 0.75}


def trained(invocation) -> dict[str, np.ndarray]:
    model = load_trained(invocation.run_folder).model
    return {path: w.numpy() for path, w in variables_by_path(model).items()}


@eagerly
def test_shares_of_zeros_grow_as_planned(run) -> None:
    invocation = run(*KEYS)
    folder, result = invocation.run_folder / "training", train(invocation)
    kernels = {p: w for p, w in trained(invocation).items() if p.endswith("/kernel")}
    assert len(kernels) == 7
    for path, values in kernels.items():
        assert (values == 0).sum() == round(0.75 * values.size), path
    numbers = sum(w.size for w in kernels.values())
    assert result["pruned"]["numbers"] == numbers
    assert result["pruned"]["total"] == pytest.approx(0.75, abs=1e-3)
    assert result["pruned"]["bytes"]["dense"] == 4 * result["parameters"]
    assert result["pruned"]["bytes"]["bitmask"] == 4 * (
        result["parameters"] - numbers
    ) + numbers // 8 + 4 * sum(np.count_nonzero(w) for w in kernels.values())

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    shares = {row["step"]: row["sparsity"] for row in rows if "sparsity" in row}
    at = {1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5}
    assert shares == {
        step: pytest.approx(SHARES[last], abs=1e-3) for step, last in at.items()
    }
    # Before the last pruning a low loss is that of a denser model.
    validations = [
        json.loads((path / "state.json").read_text())["validation"]
        for path in sorted((folder / "checkpoints").iterdir())
    ]
    assert ["loss" in of for of in validations] == [False, False, True]
    assert "Sparsity" in (folder / "report.html").read_text()


@eagerly
def test_at_once_before_the_first_step_and_over_all_matrices(run, monkeypatch) -> None:
    seen = []
    prune = WeightPruner.prune

    def watched(self, step):
        prune(self, step)
        seen.append((step, round(self.sparsity, 3)))

    monkeypatch.setattr(WeightPruner, "prune", watched)
    targets = "['*/feedforward/*', token_embedding/embeddings]"
    pruning = f"{{sparsity: 0.5, end_step: 0, scope: global, targets: {targets}}}"
    frozen = "{kind: freeze, frozen: ['encoder_layer_0/feedforward/output/*']}"
    invocation = run(
        f"training.pruning={pruning}",
        f"training.adaptation={frozen}",
        "training.steps=1",
    )
    train(invocation)
    assert seen == [(0, 0.5), (1, 0.5)]
    weights = trained(invocation)
    chosen = ("encoder_layer_0/feedforward/intermediate/kernel",)
    chosen += ("token_embedding/embeddings",)
    zeros = {path: int((x == 0).sum()) for path, x in weights.items()}
    sizes = [weights[path].size for path in chosen]
    assert sum(zeros[path] for path in chosen) == round(0.5 * sum(sizes))
    assert zeros[chosen[0]] != round(0.5 * sizes[0])
    # What is frozen, and biases beside what is pruned, are as they would be.
    assert not zeros["encoder_layer_0/feedforward/output/kernel"]
    assert weights["encoder_layer_0/feedforward/intermediate/bias"].any()


@pytest.mark.parametrize(
    ("pruning", "others", "said"),
    [
        ("sparsity: 0.0, end_step: 2", [], "sparsity=0.0 is not between 0 and 1"),
        ("sparsity: 0.5, end_step: 5", [], "end_step=5 is more than steps=4"),
        (
            "sparsity: 0.5, initial_sparsity: 0.6, end_step: 2",
            [],
            "initial_sparsity=0.6 is more than sparsity=0.5",
        ),
        (
            "sparsity: 0.5, begin_step: 3, end_step: 2",
            [],
            "end_step=2 is before begin_step=3",
        ),
        ("sparsity: 0.5, end_step: 2, targets: []", [], "prunes nothing"),
        (
            "sparsity: 0.5, end_step: 2",
            ["training.adaptation={kind: lora}", "training.initial_weights=x"],
            "adapters are merged into the kernels",
        ),
        (
            "sparsity: 0.5, end_step: 2, targets: ['*/kernal']",
            [],
            r"training\.pruning\.targets: '\*/kernal' fits the path of no weight",
        ),
        (
            "sparsity: 0.5, end_step: 2, targets: ['*/bias', '*/gamma']",
            [],
            "only biases and norms",
        ),
        (
            "sparsity: 0.5, end_step: 2, targets: ['*/kernel']",
            ["training.adaptation={kind: freeze, frozen: ['*/kernel']}"],
            "frozen by training.adaptation",
        ),
    ],
    ids=lambda value: "",
)
def test_what_is_refused(run, pruning, others, said) -> None:
    with pytest.raises(ConfigError, match=said):
        train(run(f"training.pruning={{{pruning}}}", *others))
