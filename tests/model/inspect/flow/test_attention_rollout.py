"""Attention rollout: the worked example, its wrong variants, and padding."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.flow.attention_rollout import (
    attention_rollout,
    mean_with_residual,
)

FIRST = np.array([[0.8, 0.2], [0.4, 0.6]], "float32")
SECOND = np.array([[0.1, 0.9], [0.5, 0.5]], "float32")


def numpy(x) -> np.ndarray:
    return keras.ops.convert_to_numpy(x)


def rollout(*layers: np.ndarray, padding_mask=None) -> np.ndarray:
    """Rollout after the last layer, of maps of one head."""
    mixed = [mean_with_residual(layer[:, None], padding_mask) for layer in layers]
    *_, last = attention_rollout(mixed)
    return numpy(last)


def test_worked_example():
    found = rollout(FIRST[None], SECOND[None])[0]
    np.testing.assert_allclose(found, [[0.585, 0.415], [0.375, 0.625]], atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "layers", "identity"),
    [
        ([[0.52, 0.48], [0.31, 0.69]], (SECOND, FIRST), 1),
        ([[0.44, 0.56], [0.6, 0.4]], (FIRST, SECOND), 0),
    ],
    ids=["wrong order", "no residual"],
)
def test_the_variants_that_it_is_not(wrong, layers, identity):
    """The wrong numbers are those of the faults, and not those of the code."""
    first, second = ((x + identity * np.eye(2)) / (1 + identity) for x in layers)
    np.testing.assert_allclose(second @ first, wrong, atol=1e-6)
    assert np.abs(rollout(FIRST[None], SECOND[None])[0] - wrong).max() > 0.05


def test_every_layer_the_first_first():
    mixed = [mean_with_residual(x[None, None]) for x in (FIRST, SECOND)]
    found = list(attention_rollout(mixed))
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], mixed[0])


def test_mean_over_heads_before_the_residual():
    heads = np.stack([FIRST, SECOND])[None]
    found = numpy(mean_with_residual(heads))[0]
    np.testing.assert_allclose(found, ((FIRST + SECOND) / 2 + np.eye(2)) / 2)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_against_numpy_in_float64(length, layers, seed):
    generator = np.random.default_rng(seed)
    maps = generator.dirichlet(np.ones(length), (layers, 2, 3, length))
    mixed = [mean_with_residual(layer) for layer in maps]
    *_, last = attention_rollout(mixed)
    expected = np.eye(length)[None]
    for layer in maps:
        expected = (layer.mean(axis=1) + np.eye(length)) / 2 @ expected
    np.testing.assert_allclose(last, expected, atol=1e-5)
    np.testing.assert_allclose(numpy(last).sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("garbage", [0.25, np.nan])
def test_padding_neither_gives_nor_takes(garbage):
    """Attention of padding may be anything, even when padding has weight as a key."""
    padded = []
    for layer in (FIRST, SECOND):
        whole = np.full((1, 4, 4), garbage, "float32")
        whole[0, :2, :2] = layer
        padded.append(whole)
    found = rollout(*padded, padding_mask=np.array([[1, 1, 0, 0]]))[0]
    np.testing.assert_allclose(
        found[:2, :2], [[0.585, 0.415], [0.375, 0.625]], atol=1e-6
    )
    found[:2, :2] = 0
    assert not found.any()


def test_a_model_with_and_without_padding(randomise):
    model = randomise(build_encoder(small_config(num_segments=0), VOCABULARY_SIZE))
    ids = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, (2, 6)).astype("int32")

    def compute(ids, mask):
        maps = attention_probabilities(model, {"token_ids": ids, "padding_mask": mask})
        *_, last = attention_rollout(mean_with_residual(x, mask) for x in maps.values())
        return numpy(last)

    mask = np.array([[1] * 6, [1] * 4 + [0] * 2], "int32")
    batch = compute(ids, mask)
    alone = compute(ids[1:, :4], mask[1:, :4])
    np.testing.assert_allclose(batch[1, :4, :4], alone[0], atol=1e-5)
