"""Shared by the tests of generative models."""

import keras
import numpy as np

from tests.serving.conftest import LENGTH
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    NormalInitializerConfig,
)

SMALL = {
    "num_layers": 1,
    "hidden_dim": 32,
    "max_sequence_length": LENGTH,
    "attention": FullAttentionConfig(num_heads=2),
    "feedforward": DenseFeedForwardConfig(intermediate_dim=64),
    "initializer": NormalInitializerConfig(stddev=0.3),
}


def wishes(number=4, **other):
    """The inputs of `generate` but for the texts; a list where rows differ."""
    default = {
        "max_new_tokens": 8,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "seed": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "logit_bias": "",
        "stop": "",
    }
    return {
        name: value if isinstance(value, list) else [value] * number
        for name, value in {**default, **other}.items()
    }


def fitting(trained, prompts, room=8):
    """Prompts that leave room for so many new tokens; the beginnings of long ones."""
    found = []
    for text in prompts:
        while len(trained.tokenizer.tokenize([text]).to_list()[0]) > LENGTH - room - 1:
            text = text[: len(text) - max(len(text) // 4, 1)]
        found.append(text)
    return found


def leaving(trained, room):
    """A prompt that leaves room for so many new tokens, and for no more."""
    special, words = trained.tokenizer.special, "true , raise an error when " * 30
    begins = special.begin not in (None, special.end)
    for size in range(len(words)):
        tokens = trained.tokenizer.tokenize([words[:size]]).to_list()[0]
        if len(tokens) + begins == LENGTH - room:
            return words[:size]
    raise AssertionError(room)


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
