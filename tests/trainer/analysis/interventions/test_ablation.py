"""Changes of a run's loss under ablation, compared to edited weights."""

import numpy as np
import pytest

from tests.trainer.analysis.interventions.conftest import HEADS, LAYERS
from transbeam.model.weights.assign import variables_by_path
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.analysis.interventions.ablation import (
    analyze_ablation,
    measure_changes,
)
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.evaluation.evaluation_loop import on_host, validate
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.step.build import build_evaluation

LAST = "encoder_layer_1/self_attention"


@pytest.fixture(scope="module")
def records(masked):
    return read_manifest(masked.run_folder / "data")


@pytest.fixture(scope="module")
def part(masked, records):
    return analyze_ablation(masked, records=records, kind="zero", batches=2)


def loss_without(masked, records, layer: str, head: int) -> float:
    """The evaluation's loss of a model with a part of an output kernel zeroed."""
    model = build_trainable(masked.config, 120)
    weights = variables_by_path(model)
    for path, weight in variables_by_path(masked.model).items():
        weights[path].assign(weight)
    kernel = weights[f"{layer}/output/kernel"]
    edited, width = kernel.numpy(), kernel.shape[0] // HEADS
    edited[head * width : (head + 1) * width] = 0.0
    kernel.assign(edited)
    data = validation_batches(
        records, 8, masking=dynamic_masking(masked.config, records.folder)
    )
    forward = build_evaluation(model, make_loss(masked.config))
    return validate(forward, (), on_host(data.take(2))).loss


def test_every_part_has_a_row(part):
    table = part.tables["changes"]
    assert table.column("part").to_pylist() == (
        ["head"] * LAYERS * HEADS + ["sublayer"] * 2 * LAYERS + ["block"] * LAYERS
    )
    assert table.column("head").to_pylist() == [*range(HEADS)] * LAYERS + [None] * 6
    rows = table.to_pylist()
    for row in rows:
        assert row["low"] <= row["change"] <= row["high"]
        assert row["loss"] == pytest.approx(part.numbers["loss"] + row["change"])
        assert row["kind"] == "zero"
    assert part.figures.keys() == {"heads", "layers"}
    assert f"Of {LAYERS * HEADS} heads" in part.summary


def test_a_change_is_that_of_the_evaluation(masked, records, part):
    rows = part.tables["changes"].to_pylist()
    (row,) = [row for row in rows if (row["layer"], row["head"]) == (LAST, 2)]
    expected = loss_without(masked, records, LAST, 2)
    assert row["loss"] == pytest.approx(expected, abs=1e-4)
    assert abs(row["change"]) > 1e-4


def test_the_mean_of_a_constant_changes_nothing(masked, records):
    """A sub-layer that adds the same vector everywhere has no effect but its mean."""
    weights = variables_by_path(masked.model)
    kernel = weights[f"{LAST}/output/kernel"]
    before = kernel.numpy()
    kernel.assign(np.zeros_like(before))
    try:
        parts = {
            kind: analyze_ablation(masked, records=records, kind=kind, batches=1)
            for kind in ("zero", "mean")
        }
    finally:
        kernel.assign(before)
    changes = {
        kind: {
            (row["layer"], row["head"]): row["change"]
            for row in part.tables["changes"].to_pylist()
        }
        for kind, part in parts.items()
    }
    assert abs(changes["mean"][LAST, None]) < 1e-5
    assert abs(changes["zero"][LAST, None]) > 1e-3
    assert abs(changes["zero"][LAST, 0]) < 1e-6
    assert max(map(abs, changes["mean"].values())) > 1e-3


def test_losses_of_several_outputs_are_added():
    """Output 1: 4/2 to 6/2; output 2: 3/1 to 2/1, of two records."""
    costs = np.array([[[1, 3], [3, 0]], [[2, 2], [4, 0]]], float)
    counts = np.array([[1, 1], [1, 0]], float)
    loss, (change,) = measure_changes(costs, counts, seed=1)
    assert loss == 5.0
    assert change.score == 0.0


def test_the_same_change_of_all_records_has_no_width():
    costs = np.array([np.arange(10.0), np.arange(10.0) + 2.0])[..., None]
    loss, (change,) = measure_changes(costs, np.ones((10, 1)), seed=1)
    assert loss == 4.5
    assert change == pytest.approx((2.0, 2.0, 2.0))
