"""Small models with weights large enough that a mistake shows."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    Position,
)
from transbeam.configs.schema.model import EncoderConfig

VOCABULARY_SIZE = 40


ON_JAX = keras.backend.backend() == "jax"

# Graphs, their kernels, SavedModel: what only TensorFlow has, or what needs its files.
# The rest of the tests run on JAX as well.
tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a test of TensorFlow's own"
)
jax_only = pytest.mark.skipif(not ON_JAX, reason="a test of JAX's own")
# JAX compiles anew for every shape. `make test-jax` holds what the backend can get
# wrong: layers one by one, an update for each objective. What is built of these is
# asked of TensorFlow at each change, and of JAX where thorough tests run.
_THOROUGH = pytest.mark.thorough(instead="the same test, on TensorFlow")
thorough_on_jax = _THOROUGH if ON_JAX else pytest.mark.skipif(False, reason="")
without_jax = thorough_on_jax  # as tests of other folders call it


def others_thorough(cases: Iterable[Any], quick: Sequence[Any]) -> list[Any]:
    """Parameters of a test, of which only those that are named are quick."""
    return [
        pytest.param(case, marks=() if case in quick else pytest.mark.thorough)
        for case in cases
    ]


def fewer_on_jax(cases: Iterable[Any], kept: Sequence[Any]) -> list[Any]:
    """Parameters of a test, of which `make test-jax` takes only those that are kept."""
    return [
        pytest.param(case, marks=() if case in kept else thorough_on_jax)
        for case in cases
    ]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "quick_on_jax: of the tests of `tests/model` one for `make test-jax`"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what is thorough
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On JAX the tests of this folder are thorough where they do not say otherwise."""
    here = Path(__file__).parent
    for item in items:
        is_ours = ON_JAX and item.path.is_relative_to(here)
        if is_ours and not item.get_closest_marker("quick_on_jax"):
            item.add_marker(_THOROUGH)


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
        "position": position or LearnedPositionConfig(),
        "attention": FullAttentionConfig(num_heads=2, dropout=dropout),
        "norm": LayerNormConfig(placement=placement),
        "feedforward": DenseFeedForwardConfig(
            intermediate_dim=24, activation=activation
        ),
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
