import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from keras import ops

from tests.model.compiling import compiled
from transbeam.configs.schema.generation import SampleConfig
from transbeam.model.generation.logits_processors import NEVER
from transbeam.model.generation.sampling import (
    CHOICE,
    DRAFT,
    draw,
    highest,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    random_bits,
    random_gumbel,
    random_uniform,
    shape_scores,
)

PROBABILITIES = np.array([[0.1, 0.4, 0.2, 0.3]])
SCORES = arrays.arrays(
    "float32",
    (3, 8),
    elements=st.floats(-9, 9, width=16),
)


def kept(scores):
    return (ops.convert_to_numpy(scores) > NEVER / 2).astype(int).tolist()


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("filtered", "expected"),
    [
        (lambda s: keep_top_k(s, 1), [0, 1, 0, 0]),
        (lambda s: keep_top_k(s, 3), [0, 1, 1, 1]),
        (lambda s: keep_top_k(s, 9), [1, 1, 1, 1]),
        (lambda s: keep_top_p(s, 0.0), [0, 1, 0, 0]),
        (lambda s: keep_top_p(s, 0.39), [0, 1, 0, 0]),
        (lambda s: keep_top_p(s, 0.41), [0, 1, 0, 1]),
        (lambda s: keep_top_p(s, 0.71), [0, 1, 1, 1]),
        (lambda s: keep_top_p(s, 1.0), [1, 1, 1, 1]),
        (lambda s: keep_min_p(s, 0.49), [0, 1, 1, 1]),
        (lambda s: keep_min_p(s, 0.51), [0, 1, 0, 1]),
        (lambda s: keep_min_p(s, 1.0), [0, 1, 0, 0]),
    ],
)
def test_what_is_kept_by_hand(filtered, expected):
    scores = ops.log(ops.array(PROBABILITIES, dtype="float32"))
    assert kept(filtered(scores)) == [expected]


@given(scores=SCORES, k=st.sampled_from([1, 3, 8, 9]))
def test_top_k_keeps_whatever_is_not_below_the_kth(scores, k):
    ordered = -np.sort(-scores, axis=-1)
    threshold = ordered[:, min(k, scores.shape[1]) - 1][:, None]
    assert kept(keep_top_k(ops.array(scores), k)) == (scores >= threshold).tolist()


@given(scores=SCORES, p=st.floats(0.05, 0.95))
def test_top_p_is_the_smallest_set_that_reaches_p(scores, p):
    for row, mask in zip(scores, kept(keep_top_p(ops.array(scores), p)), strict=True):
        chances, mask = softmax(row.astype("float64")), np.array(mask, bool)
        assert chances[mask].sum() >= p - 1e-5
        # Without the least likely of them it would not reach p.
        rest = chances[mask & (row > row[mask].min())].sum()
        assert rest < p + 1e-5


def test_top_p_after_top_k_is_over_what_top_k_left():
    scores = ops.log(ops.array(PROBABILITIES, dtype="float32"))
    # 0.4 and 0.3 are 0.57 and 0.43 of what is left.
    config = SampleConfig(top_k=2, top_p=0.5)
    assert kept(shape_scores(scores, config)) == [[0, 1, 0, 0]]
    config = SampleConfig(top_k=2, top_p=0.6)
    assert kept(shape_scores(scores, config)) == [[0, 1, 0, 1]]


@given(scores=SCORES)
def test_a_single_candidate_is_the_highest(scores):
    scores = ops.array(scores + np.arange(8, dtype="float32") * 1e-3)
    seeds = ops.arange(scores.shape[0])
    drawn = draw(keep_top_k(scores, 1), seeds, 0, CHOICE)
    expected = ops.convert_to_numpy(highest(scores))
    assert ops.convert_to_numpy(drawn).tolist() == expected.tolist()


def test_draws_are_distributed_as_the_softmax_says():
    number = 20_000
    scores = np.log(PROBABILITIES).astype("float32").repeat(number, axis=0)
    drawn = ops.convert_to_numpy(draw(ops.array(scores), ops.arange(number), 5, CHOICE))
    shares = np.bincount(drawn, minlength=4) / number
    # Four standard deviations of a share.
    deviation = np.sqrt(PROBABILITIES[0] * (1 - PROBABILITIES[0]) / number)
    assert (np.abs(shares - PROBABILITIES[0]) < 4 * deviation).all()


@pytest.mark.quick_on_jax
def test_random_bits_are_the_same_everywhere():
    bits = random_bits(ops.array([1, -2]), 3, CHOICE, 5)
    expected = [
        [3027693750, 3152585369, 3421441594, 2272621780, 1282177246],
        [466200471, 264878746, 3330677003, 2365956916, 1090423869],
    ]
    assert ops.convert_to_numpy(bits).tolist() == expected
    for jit in (False, True):
        function = compiled(lambda seeds: random_bits(seeds, 3, CHOICE, 5), jit=jit)
        graph = function(np.array([1, -2], "int32"))
        assert ops.convert_to_numpy(graph).tolist() == expected


def test_seeds_places_and_purposes_have_numbers_of_their_own():
    seeds = ops.arange(100)
    drawn = [
        ops.convert_to_numpy(random_bits(seeds, place, purpose, 50))
        for place in range(4)
        for purpose in (CHOICE, DRAFT)
    ]
    assert len(np.unique(drawn)) > 0.9999 * np.size(drawn)


def test_uniform_numbers_are_uniform_and_never_0_or_1():
    drawn = ops.convert_to_numpy(random_uniform(ops.arange(500), 0, CHOICE, 200))
    assert drawn.min() > 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert (np.abs(counts - 5000) < 4 * np.sqrt(5000)).all()
    assert np.isfinite(
        ops.convert_to_numpy(random_gumbel(ops.arange(500), 0, CHOICE, 200))
    ).all()
    neighbours = np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(drawn.size)
