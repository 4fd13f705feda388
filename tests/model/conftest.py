"""Small models with weights large enough that a mistake shows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import pytest

from configs.attention import FullAttention
from configs.model import EncoderConfig
from configs.sockets import (
    DenseFeedForward,
    LayerNorm,
    LearnedPosition,
    Position,
)

VOCABULARY_SIZE = 40

# Graphs, their kernels, SavedModel: what only TensorFlow has, or what needs its files.
# The rest of the tests run on JAX as well (`make test-jax`).
tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a test of TensorFlow's own"
)
# JAX compiles anew for every shape, such as hypothesis thinks of.
without_jax = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX compiles it for too long"
)


def fewer_on_jax(cases: Iterable[Any], kept: Sequence[Any]) -> list[Any]:
    """Parameters of a test, of which JAX takes only those that are kept."""
    return [
        pytest.param(case, marks=() if case in kept else without_jax) for case in cases
    ]


@pytest.fixture
def config() -> EncoderConfig:
    """Two layers and two segments, no dropout."""
    return small_config()


def small_config(
    *,
    placement: str = "post",
    position: Position | None = None,
    dropout: float = 0.0,
    activation: str = "gelu",
    **changes,
) -> EncoderConfig:
    """The `config` fixture with something changed."""
    options = {
        "num_layers": 2,
        "hidden_dim": 16,
        "max_sequence_length": 20,
        "num_segments": 2,
        "dropout": dropout,
        "position": position or LearnedPosition(),
        "attention": FullAttention(num_heads=2, dropout=dropout),
        "norm": LayerNorm(placement=placement),
        "feedforward": DenseFeedForward(intermediate_dim=24, activation=activation),
    }
    return EncoderConfig(**{**options, **changes})


@pytest.fixture
def randomise() -> Callable[[keras.Model], keras.Model]:
    """Gives every weight a value of its own, the ones and zeros among them too."""

    def randomise(model: keras.Model, spread: float = 0.4) -> keras.Model:
        generator = np.random.default_rng(7)
        for weight in model.weights:
            centre = 1.0 if weight.path.endswith("gamma") else 0.0
            weight.assign(generator.normal(centre, spread, weight.shape))
        return model

    return randomise
