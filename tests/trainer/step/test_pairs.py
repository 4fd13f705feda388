"""Updates and evaluations whose pairs are compared with each other."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.trainer.batches import PAIRS, random_batch, small_model
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.step.batch import model_inputs
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import TrainState

LOSS = Loss(make_targets(PAIRS))


def vectors(model: keras.Model, batch: dict) -> np.ndarray:
    """The vectors of each text, asked for one by one without padding: (B, N, D)."""
    found = []
    for ids, documents in zip(
        batch["token_ids"].reshape(-1, batch["token_ids"].shape[-1]),
        batch["document_ids"].reshape(-1, batch["token_ids"].shape[-1]),
        strict=True,
    ):
        real = documents > 0
        inputs = {
            "token_ids": ids[None, real],
            "document_ids": documents[None, real],
            "position_ids": np.arange(real.sum(), dtype="int32")[None],
        }
        found.append(ops.convert_to_numpy(model(inputs)["embedding"])[0])
    return np.stack(found).reshape(*batch["token_ids"].shape[:2], -1)


def test_each_text_is_a_row_of_the_model() -> None:
    model, batch = small_model(PAIRS), random_batch(PAIRS, 4)
    rows = model(model_inputs(model, batch), training=False)["embedding"]
    expected = vectors(model, batch)
    np.testing.assert_allclose(
        ops.convert_to_numpy(rows).reshape(expected.shape), expected, atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.norm(expected, axis=-1), 1, rtol=1e-5)


def test_the_negatives_are_those_of_the_micro_batch() -> None:
    """The loss is the mean over all pairs, each compared within its micro-batch."""
    batch = random_batch(PAIRS, 8)
    halves = [{name: x[rows] for name, x in batch.items()} for rows in HALVES]
    results = []
    for accumulation in (1, 2):
        model = small_model(PAIRS)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        config = TrainingConfig(
            steps=10, batch_size=8, accumulation=accumulation, clip_norm=None
        )
        update = build_step(TrainState(model, optimizer, config), LOSS, config)
        results.append(float(update(batch)["loss"]))
    model = small_model(PAIRS)
    forward = build_evaluation(model, LOSS)
    whole, *parts = (
        ops.convert_to_numpy(forward(rows)["embedding"]["cost"])
        for rows in (batch, *halves)
    )
    assert results[0] == pytest.approx(whole.mean(), rel=1e-5)
    assert results[1] == pytest.approx(np.concatenate(parts).mean(), rel=1e-5)
    assert results[1] < results[0]


HALVES = (slice(0, 4), slice(4, 8))


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_an_update_goes_down_the_gradient_of_the_mean(family: str) -> None:
    """The row of a missing hard negative may be padding alone, as on a decoder."""
    model, batch = small_model(PAIRS, family=family), random_batch(PAIRS, 8)
    for name, values in batch.items():
        values[:2, 2] = 0
        assert values.any(), name
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    config = TrainingConfig(steps=100, batch_size=8, clip_norm=None)
    update = build_step(TrainState(model, optimizer, config), LOSS, config)
    first = float(update(batch)["loss"])
    for _ in range(60):
        numbers = update(batch)
    assert float(numbers["loss"]) < 0.5 * first
    assert int(numbers["tokens"]) == (batch["document_ids"] > 0).sum()
    answers = build_evaluation(model, LOSS)(batch)["embedding"]
    assert (ops.convert_to_numpy(answers["guesses"]) >= 1).all()


def test_records_of_two_lengths() -> None:
    """As buckets have them: one compiled function for both."""
    model = small_model(PAIRS)
    forward = build_evaluation(model, LOSS)
    batch = random_batch(PAIRS, 4)
    batch["document_ids"][:, :, 8:] = 0
    costs = [
        ops.convert_to_numpy(forward(rows)["embedding"]["costs"])
        for rows in (batch, {n: shortened(n, x) for n, x in batch.items()})
    ]
    np.testing.assert_allclose(*costs, atol=1e-5)


def shortened(name: str, x: np.ndarray) -> np.ndarray:
    return x if name == "text_hashes" else x[..., :8]
