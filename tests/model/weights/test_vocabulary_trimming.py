"""In every family only the weights with a token axis are trimmed."""

import numpy as np
import pytest

from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    SpanCorruptionConfig,
)
from transbeam.model.build import build_model
from transbeam.model.weights.assign import variable_shapes
from transbeam.model.weights.vocabulary_trimming import AXES, slice_vocabulary

# No width of a model is as large.
BEFORE, AFTER = 41, 37
SMALL = {"num_layers": 1, "hidden_dim": 8}
MODELS = {
    "masked": (EncoderConfig(**SMALL), MaskedConfig()),
    "narrow": (EncoderConfig(**SMALL, embedding_dim=4), MaskedConfig()),
    "tied": (DecoderConfig(**SMALL), CausalConfig()),
    "untied": (DecoderConfig(**SMALL, tie_embeddings=False), CausalConfig()),
    "seq2seq": (Seq2SeqModelConfig(**SMALL), SpanCorruptionConfig()),
    "rounded_up": (DecoderConfig(**SMALL, vocabulary_multiple=8), CausalConfig()),
}


@pytest.mark.parametrize("name", MODELS)
def test_shapes_are_those_of_a_model_with_fewer_tokens(name):
    config, objective = MODELS[name]
    before, after = (
        variable_shapes(build_model(config, objective, size))
        for size in (BEFORE, AFTER)
    )
    rows = after["token_embedding/embeddings"][0]
    weights = {path: np.ones(shape) for path, shape in before.items()}
    taken = dict(slice_vocabulary(weights, range(AFTER), rows))
    assert {path: x.shape for path, x in taken.items()} == after
    different = {path for path in before if before[path] != after[path]}
    assert different <= set(AXES)


def test_values_by_hand():
    weights = {
        "token_embedding/embeddings": np.array([[0.0], [1.0], [2.0], [9.0]]),
        "logits/kernel": np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        "head_bias/bias": np.array([0.0, 1.0, 2.0]),
        "final_norm/gamma": np.array([7.0, 8.0, 9.0]),
    }
    taken = {
        path: values.tolist()
        for path, values in slice_vocabulary(weights, old_ids=[0, 2], rows=4)
    }
    assert taken == {
        # The row past the old vocabulary is no token's, and does not come along.
        "token_embedding/embeddings": [[0.0], [2.0], [0.0], [0.0]],
        "logits/kernel": [[0.0, 2.0], [3.0, 5.0]],
        "head_bias/bias": [0.0, 2.0],
        "final_norm/gamma": [7.0, 8.0, 9.0],
    }
