"""Documents packed into one row are worth exactly what they are worth alone.

Promise 4 of the design: the same logits, and the same gradient of every weight.
"""

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.gradients import value_and_gradients
from transbeam.configs.schema.block import (
    DirectedAlibiPositionConfig,
    LearnedPositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model

LENGTHS = (3, 5, 4)
PADDING = 2
MASKED = 2  # per document
ROW = sum(LENGTHS) + PADDING

rng = np.random.default_rng(0)
DOCUMENTS = [rng.integers(0, VOCABULARY_SIZE, length) for length in LENGTHS]
SEGMENTS = [rng.integers(0, 2, length) for length in LENGTHS]
POSITIONS = [rng.choice(length, MASKED, replace=False) for length in LENGTHS]
# What the loss makes of each logit: any fixed numbers will do.
WORTH = rng.normal(size=(len(LENGTHS), MASKED, VOCABULARY_SIZE)).astype("float32")


def int32(inputs: dict) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, "int32") for name, value in inputs.items()}


def alone() -> dict[str, np.ndarray]:
    longest = max(LENGTHS)

    def rows(pieces):
        return [np.pad(piece, (0, longest - len(piece))) for piece in pieces]

    return int32(
        {
            "token_ids": rows(DOCUMENTS),
            "segment_ids": rows(SEGMENTS),
            "padding_mask": rows([np.ones(length) for length in LENGTHS]),
            "masked_positions": POSITIONS,
        }
    )


def packed() -> dict[str, np.ndarray]:
    starts = np.cumsum((0, *LENGTHS[:-1]))

    def row(pieces):
        return [np.pad(np.concatenate(pieces), (0, PADDING))]

    return int32(
        {
            "token_ids": row(DOCUMENTS),
            "segment_ids": row(SEGMENTS),
            "document_ids": row(
                [np.full(length, i + 1) for i, length in enumerate(LENGTHS)]
            ),
            "position_ids": row([np.arange(length) for length in LENGTHS]),
            "masked_positions": [
                np.concatenate([p + s for p, s in zip(POSITIONS, starts, strict=True)])
            ],
        }
    )


def logits_and_gradients(model: keras.Model, inputs: dict[str, np.ndarray]):
    def logits():
        return keras.ops.reshape(model(inputs)["logits"], WORTH.shape)

    _, gradients = value_and_gradients(
        lambda: logits() * WORTH, model.trainable_variables
    )
    return keras.ops.convert_to_numpy(compiled_on_jax(logits)()), gradients


SOCKETS = [
    pytest.param(LearnedPositionConfig(), marks=pytest.mark.quick_on_jax),
    SinusoidalPositionConfig(),
    DirectedAlibiPositionConfig(),
]


@pytest.mark.parametrize("position", SOCKETS)
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_packed_is_alone(placement, position, randomise):
    config = small_config(
        placement=placement,
        position=position,
    )
    plain = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    together = build_model(config, MaskedConfig(), VOCABULARY_SIZE, packed=True)
    together.set_weights(plain.get_weights())

    logits, gradients = logits_and_gradients(plain, alone())
    packed_logits, packed_gradients = logits_and_gradients(together, packed())
    # Logits are of size 1 to 10.
    np.testing.assert_allclose(packed_logits, logits, rtol=0, atol=1e-5)
    for weight, there, here in zip(
        plain.trainable_weights, packed_gradients, gradients, strict=True
    ):
        # Sums over all documents, of size 1 to 100, in another order.
        np.testing.assert_allclose(
            there, here, rtol=1e-5, atol=1e-4, err_msg=weight.path
        )


def test_the_test_would_see_a_leak(config, randomise):
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE, packed=True))
    inputs = packed()
    separate, _ = logits_and_gradients(model, inputs)
    inputs["document_ids"] = np.minimum(inputs["document_ids"], 1)
    joined, _ = logits_and_gradients(model, inputs)
    assert np.abs(joined - separate).max() > 0.1


def test_what_stands_in_another_document_does_not_matter(config, randomise):
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE, packed=True))
    inputs = packed()
    before, _ = logits_and_gradients(model, inputs)
    others = inputs["document_ids"] != 2
    inputs["token_ids"] = np.where(
        others, (inputs["token_ids"] + 5) % VOCABULARY_SIZE, inputs["token_ids"]
    )
    after, _ = logits_and_gradients(model, inputs)
    np.testing.assert_allclose(after[1], before[1], rtol=0, atol=1e-5)
    assert np.abs(after[0] - before[0]).max() > 0.1


def test_no_score_is_large_enough_to_leak(config, randomise):
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE, packed=True))
    # Scores lie hundreds apart, as those of a trained model can.
    for weight in model.trainable_weights:
        if "query" in weight.path or "key" in weight.path:
            weight.assign(weight * 20.0)
    inputs = packed()
    before, _ = logits_and_gradients(model, inputs)
    others = inputs["document_ids"] != 2
    inputs["token_ids"] = np.where(
        others, (inputs["token_ids"] + 5) % VOCABULARY_SIZE, inputs["token_ids"]
    )
    after, _ = logits_and_gradients(model, inputs)
    np.testing.assert_allclose(after[1], before[1], rtol=0, atol=1e-5)
