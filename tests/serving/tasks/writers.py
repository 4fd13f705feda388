"""What the tests of models that write have in common."""

import keras
import numpy as np

from configs.attention import FullAttention
from configs.sockets import DenseFeedForward, NormalInitializer
from tests.serving.conftest import LENGTH

SMALL = {
    "num_layers": 1,
    "hidden_dim": 32,
    "max_sequence_length": LENGTH,
    "attention": FullAttention(num_heads=2),
    "feedforward": DenseFeedForward(intermediate_dim=64),
    "initializer": NormalInitializer(stddev=0.3),
}


def wishes(number=4, **other):
    """The inputs of `generate` but for the texts; a list where rows differ."""
    default = {
        "max_new_tokens": 8,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "seed": 0,
        "stop": "",
    }
    return {
        name: value if isinstance(value, list) else [value] * number
        for name, value in {**default, **other}.items()
    }


def rows_of(answers, name="token_ids"):
    """The tokens of each row, without what fills it up."""
    pairs = zip(answers[name], answers["length"], strict=True)
    return [row[:length].tolist() for row, length in pairs]


def logits_of(model: keras.Model, **ids: list[int]) -> np.ndarray:
    """Keras's for one row alone, in float64.

    Args:
        model: With inputs of these names, and a padding mask for each.
        ids: Such as `token_ids`.
    """
    masks = {
        name.replace("token_ids", "padding_mask"): [1] * len(of)
        for name, of in ids.items()
    }
    arrays = {name: np.array([of], np.int32) for name, of in {**ids, **masks}.items()}
    return np.asarray(model(arrays, training=False)["logits"], np.float64)[0]


def log_likelihood(logits: np.ndarray, tokens: list[int]) -> float:
    """By hand: of these tokens, each at the place whose logits foretell it."""
    log = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return sum(log[place, token] for place, token in enumerate(tokens))
