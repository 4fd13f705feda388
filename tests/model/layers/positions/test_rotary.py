"""RoPE: turns by hand, distances only, and frequencies for longer texts."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.positions.rotary import RotaryEmbedding


def turn(layer: RotaryEmbedding, x, position_ids) -> np.ndarray:
    return ops.convert_to_numpy(layer(np.asarray(x, "float32"), np.array(position_ids)))


def frequencies(width: int, **options) -> np.ndarray:
    """The rotation angles at position 1, from the vector (1, 1, ..., 0, 0)."""
    east = np.repeat([1.0, 0.0], width // 2).reshape(1, 1, 1, width)
    x, y = np.split(turn(RotaryEmbedding(**options), east, [1])[0, 0, 0], 2)
    return np.arctan2(y, x)


def test_unit_vectors_by_hand():
    # K = 4, base 100: the pairs (0, 2) and (1, 3) turn by 1 and by 1/10 a place.
    units = np.eye(4).reshape(1, 1, 4, 4)  # as four heads of one token
    found = turn(RotaryEmbedding(base=100.0), units, [3])[0, 0]
    a, b = 3.0, 0.3
    expected = [
        [np.cos(a), 0, np.sin(a), 0],
        [0, np.cos(b), 0, np.sin(b)],
        [-np.sin(a), 0, np.cos(a), 0],
        [0, -np.sin(b), 0, np.cos(b)],
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_place_0_is_not_turned():
    x = np.random.default_rng(0).normal(size=(2, 1, 3, 8)).astype("float32")
    np.testing.assert_array_equal(turn(RotaryEmbedding(), x, [0]), x)


@given(
    query_place=st.integers(0, 500),
    key_place=st.integers(0, 500),
    shift=st.integers(0, 500),
    stretch=st.sampled_from(["none", "linear", "ntk", "yarn"]),
)
def test_scores_depend_on_the_distance_only(query_place, key_place, shift, stretch):
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 1, 1, 1, 8))
    layer = RotaryEmbedding(stretch=stretch, factor=4.0, original_length=300)

    def score(m: int, n: int) -> float:
        return float(np.sum(turn(layer, query, [m]) * turn(layer, key, [n])))

    # An angle of 1,000 is rounded to 3e-5 in float32.
    here = score(query_place, key_place)
    there = score(query_place + shift, key_place + shift)
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-3)


def test_every_row_has_its_places():
    layer = RotaryEmbedding()
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 8)).astype("float32")
    rows = np.array([[0, 1, 2, 3], [0, 1, 0, 1]], "int32")
    found = turn(layer, x, rows)
    np.testing.assert_array_equal(found[0], turn(layer, x, range(4))[0])
    np.testing.assert_array_equal(found[1, 2:], turn(layer, x[:, 2:], range(2))[1])


def test_linear_divides_positions():
    x = np.random.default_rng(0).normal(size=(1, 5, 1, 8)).astype("float32")
    stretched = turn(RotaryEmbedding(stretch="linear", factor=4.0), x, range(0, 20, 4))
    np.testing.assert_allclose(stretched, turn(RotaryEmbedding(), x, range(5)), 0, 1e-6)


@pytest.mark.parametrize("width", [2, 4, 64])
def test_ntk_is_a_larger_base(width):
    found = frequencies(width, base=500.0, stretch="ntk", factor=4.0)
    base = 500.0 * 4.0 ** (width / (width - 2)) if width > 2 else 500.0
    np.testing.assert_allclose(found, frequencies(width, base=base), rtol=1e-5)
    plain = 500.0 ** (-np.arange(0, width, 2) / width)
    np.testing.assert_allclose(found[0], 1.0, rtol=1e-6)
    if width > 2:
        np.testing.assert_allclose(found[-1], plain[-1] / 4.0, rtol=1e-5)


def yarn(width: int, length: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Peng et al., 2023, equations of section 3.2, with alpha 1 and beta 32."""
    theta = 10_000.0 ** (-2 * np.arange(width // 2) / width)
    turns = length * theta / (2 * np.pi)
    kept = np.clip((turns - 1) / (32 - 1), 0, 1)
    return kept, (1 - kept) * theta / factor + kept * theta


@pytest.mark.parametrize(
    ("width", "length", "factor"), [(128, 4096, 16.0), (64, 2048, 8.0), (32, 512, 2.0)]
)
def test_yarn_keeps_what_turns_often_and_divides_what_hardly_turns(
    width, length, factor
):
    options = {"stretch": "yarn", "factor": factor, "original_length": length}
    found = frequencies(width, **options)
    kept, expected = yarn(width, length, factor)
    sure = (kept == 0) | (kept == 1)
    assert 0 < np.sum(kept == 1) < np.sum(sure) < width // 2
    np.testing.assert_allclose(found[sure], expected[sure], rtol=1e-5)

    # In between, the paper's share falls with the turns, and that of the authors'
    # code in equal steps, from the last pair that is kept to the first divided.
    plain = frequencies(width)
    share = (found / plain - 1 / factor) / (1 - 1 / factor)
    last_kept, first_divided = np.sum(kept == 1) - 1, width // 2 - np.sum(kept == 0)
    between = share[last_kept : first_divided + 1]
    steps = np.linspace(1, 0, first_divided - last_kept + 1)
    np.testing.assert_allclose(between, steps, rtol=0, atol=1e-4)


def test_yarn_makes_scores_sharper():
    layer = RotaryEmbedding(stretch="yarn", factor=16.0, original_length=64)
    x = np.random.default_rng(0).normal(size=(1, 3, 2, 8)).astype("float32")
    lengths = np.linalg.norm(turn(layer, x, range(3)), axis=-1)
    expected = (0.1 * np.log(16.0) + 1.0) * np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(lengths, expected, rtol=1e-6)


def test_half_precision_is_rounded_once():
    x = np.random.default_rng(0).normal(size=(1, 4, 2, 8)).astype("float32")
    x = ops.cast(x, "bfloat16")
    positions = np.array([0, 1, 1000, 2001], "int32")  # bfloat16 has no 2001
    half = RotaryEmbedding(dtype="mixed_bfloat16")(x, positions)
    exact = ops.cast(RotaryEmbedding(dtype="float32")(x, positions), "bfloat16")
    assert keras.backend.standardize_dtype(half.dtype) == "bfloat16"
    np.testing.assert_array_equal(
        ops.convert_to_numpy(ops.cast(half, "float32")),
        ops.convert_to_numpy(ops.cast(exact, "float32")),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stretch": "yarm"}, "rotary: stretch='yarm'; known here"),
        ({"base": 1.0}, "rotary: base=1.0 must be more than 1"),
        ({"stretch": "ntk", "factor": 0.5}, "factor=0.5 at least 1"),
        ({"stretch": "yarn", "factor": 2.0}, "needs original_length"),
        ({"beta_slow": 0.0}, "beta_slow=0.0 must be more than 0"),
        ({"beta_slow": 9.0, "beta_fast": 8.0}, "less than beta_fast=8.0"),
    ],
)
def test_arguments_that_make_no_frequencies_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RotaryEmbedding(**options, name="rotary")


@pytest.mark.parametrize(
    ("shape", "position_ids", "message"),
    [
        ((1, 3, 2, 5), np.arange(3), r"inputs has shape \(1, 3, 2, 5\); .* even"),
        ((1, 3, 4), np.arange(3), r"inputs has shape \(1, 3, 4\)"),
        ((1, 3, 2, 4), np.arange(2), r"position_ids has shape \(2,\); .*\(3,\)"),
        (
            (1, 3, 2, 4),
            np.zeros((1, 3, 1), "int32"),
            r"position_ids has shape \(1, 3, 1\)",
        ),
        ((1, 3, 2, 4), np.zeros(3), "position_ids has dtype float32"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(shape, position_ids, message):
    with pytest.raises(ValueError, match=f"rotary: {message}"):
        RotaryEmbedding(name="rotary")(np.zeros(shape, "float32"), position_ids)
