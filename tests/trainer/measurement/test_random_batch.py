"""Random records: as the contract says, and as a model reads them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.model.conftest import others_thorough
from tests.objective_configs import EVERY, KINDS, config_of
from tests.trainer.conftest import eagerly
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.features import check_arrays
from transbeam.trainer.measurement.measured_step import build_measured_step
from transbeam.trainer.measurement.random_batch import random_batch, with_static_masks

PIECES = 30
# Fills, a text, pairs of texts, and an encoder with a decoder.
OFTEN = [("masked", "encoder"), ("prefix", "decoder"), ("seq2seq", "seq2seq")]


def run_of(kind: str, model: str | None = None):
    run = config_of(kind, model)
    return replace(run, training=replace(run.training, batch_size=4, accumulation=1))


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_contract(kind):
    run = with_static_masks(run_of(kind))
    batch = random_batch(run, PIECES)
    check_arrays(batch, contract(run))
    assert {len(array) for array in batch.values()} == {4}
    for name, array in batch.items():
        if name.endswith("token_ids"):
            assert array.max() < PIECES
        if name.endswith("document_ids"):
            assert array.min() == 1  # no padding
    if "masked_positions" in batch:
        assert (np.diff(batch["masked_positions"]) > 0).all()
    for name, array in random_batch(run, PIECES).items():
        np.testing.assert_array_equal(array, batch[name])


@eagerly
@pytest.mark.parametrize("kinds", others_thorough(EVERY, OFTEN), ids="-".join)
def test_an_update_of_each_kind(kinds):
    calls = build_measured_step(run_of(*kinds), PIECES)
    assert list(calls) == ["forward", "step"]
    for call in calls.values():
        call()
