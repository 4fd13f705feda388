"""A model without its last product: who multiplies later gets what it gives."""

import numpy as np
import pytest
from keras import ops

from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.functional.deferred_logits import without_scores
from transbeam.trainer.step.batch import model_inputs

VOCABULARY = {"masked", "sentence_pairs", "causal", "prefix", "seq2seq"}


def assert_same_scores(model, inputs) -> None:
    whole = model(inputs, training=False)
    unscored = without_scores(model)
    assert unscored is not None
    parts = unscored(inputs, training=False)
    scores = parts.pop("logits")
    made = ops.matmul(scores.vectors, ops.transpose(scores.table))
    if scores.bias is not None:
        made = made + scores.bias
    np.testing.assert_allclose(made, whole.pop("logits"), rtol=0, atol=2e-6)
    assert parts.keys() == whole.keys()
    for name, value in parts.items():
        np.testing.assert_array_equal(value, whole[name])


@pytest.mark.parametrize("kind", sorted(OBJECTIVES))
def test_of_every_objective(kind) -> None:
    """Logits are deferred exactly where they are over a vocabulary."""
    model = small_model(OBJECTIVES[kind])
    for weight in model.weights:  # the head's bias, too, which begins as zeros
        weight.assign_add(0.1 * np.random.default_rng(0).normal(size=weight.shape))
    inputs = model_inputs(model, random_batch(OBJECTIVES[kind], 2, 0))
    if kind in VOCABULARY:
        assert_same_scores(model, inputs)
    else:
        assert without_scores(model) is None


@pytest.mark.parametrize(
    "keys",
    [{"tie_embeddings": False}, {"vocabulary_multiple": 8}, {"embedding_dim": 3}],
    ids=str,
)
def test_of_every_table(keys) -> None:
    """A table of its own, and one with rows past the vocabulary."""
    config = DecoderConfig(num_layers=1, hidden_dim=8, **keys)
    ids = np.array([[1, 2, 3]], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    assert_same_scores(build_decoder(config, 10), inputs)
