"""Weights in 4 bits, of which one makes good what another is off by."""

import numpy as np
import pytest

from transbeam.serving.phone.quantization.gptq import _steps, gptq, round_rows

DAMPING = 0.01  # of the mean of the diagonal


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def moments_of(inputs):
    return inputs.T @ inputs / len(inputs)


def alike(number, width, seed=1):
    """Inputs that go together: of a tenth as many numbers, and some noise."""
    few = normal(number, width // 10, seed=seed)
    mixed = few @ normal(width // 10, width, seed=seed + 1)
    return mixed + 0.1 * normal(number, width, seed=seed + 2)


def nearest(weights, scales):
    return np.clip(np.round(weights / scales[:, None]), -7, 7)


def one_at_a_time(weights, scales, moments):
    """The same by its definition: the inverse is made anew for the inputs left.

    Hassibi & Stork, 1992; Frantar & Alistarh, 2022, https://arxiv.org/abs/2208.11580.
    """
    width = len(moments)
    damped = moments + DAMPING * np.trace(moments) / width * np.eye(width)
    order = np.argsort(-np.diag(moments), kind="stable")
    weights, rounded = weights.astype(np.float64), np.zeros(weights.shape)
    for place, i in enumerate(order):
        left = order[place:]
        inverse = np.linalg.inv(damped[np.ix_(left, left)])
        rounded[:, i] = np.clip(np.round(weights[:, i] / scales), -7, 7)
        error = (weights[:, i] - rounded[:, i] * scales) / inverse[0, 0]
        weights[:, left] -= np.outer(error, inverse[0])
    return rounded


@pytest.mark.parametrize("width", [40, 260])  # of one block, and of three
def test_it_is_what_the_definition_says(width):
    weights, moments = normal(5, width), moments_of(alike(1000, width))
    numbers, _ = gptq(weights, moments)
    steps = _steps(weights, np.diag(moments))
    np.testing.assert_array_equal(numbers, one_at_a_time(weights, steps, moments))
    assert (numbers != nearest(weights, steps)).mean() > 0.1


def test_inputs_that_have_nothing_in_common_make_nothing_good():
    weights = normal(6, 50)
    squares = np.arange(1.0, 51.0)
    numbers, _ = gptq(weights, np.diag(squares))
    np.testing.assert_array_equal(numbers, nearest(weights, _steps(weights, squares)))


def test_the_product_is_less_off_than_of_nearest_steps():
    weights, inputs = normal(64, 200), alike(2000, 200)
    numbers, scales = gptq(weights, moments_of(inputs))
    steps = scales[:, None]
    exact = inputs @ weights.T
    off = np.linalg.norm(inputs @ (numbers * steps).T - exact)
    longest = np.abs(weights).max(axis=1) / 7
    plain = nearest(weights, longest) * longest[:, None]
    plain = np.linalg.norm(inputs @ plain.T - exact)
    assert off < 0.4 * plain


def test_what_a_row_gives_is_as_large_along_what_it_should_give():
    weights, inputs = normal(64, 200), alike(2000, 200)
    numbers, scales = gptq(weights, moments_of(inputs))
    exact, found = inputs @ weights.T, inputs @ (numbers * scales[:, None]).T
    along = (exact * found).sum(axis=0) / np.square(exact).sum(axis=0)
    np.testing.assert_allclose(along, 1, rtol=1e-4)


def test_the_scale_of_a_row_that_gives_next_to_nothing_stays_near_its_step():
    """Rounded it gives nothing at all, and no scale would make that enough."""
    weights = np.array([[1.0, -0.93]])
    moments = np.array([[1.0, 1.0], [1.0, 1.0001]])
    numbers, scales = gptq(weights, moments)
    assert numbers.tolist() == [[7, -7]]
    assert scales[0] <= 2 * _steps(weights, np.diag(moments))[0]


def test_the_order_of_inputs_does_not_matter():
    weights, moments = normal(8, 60), moments_of(alike(500, 60))
    order = np.random.default_rng(3).permutation(60)
    numbers, scales = gptq(weights, moments)
    shuffled = gptq(weights[:, order], moments[np.ix_(order, order)])
    np.testing.assert_array_equal(shuffled[0], numbers[:, order])
    np.testing.assert_allclose(shuffled[1], scales, rtol=1e-6)


def test_rows_are_rounded_each_for_itself():
    weights, moments = normal(8, 60), moments_of(alike(500, 60))
    together = gptq(weights, moments)
    for number in range(8):
        numbers, scales = gptq(weights[number : number + 1], moments)
        np.testing.assert_array_equal(numbers[0], together[0][number])
        np.testing.assert_allclose(scales[0], together[1][number], rtol=1e-6)


@pytest.mark.parametrize("moments", [np.zeros((4, 4)), np.diag([0.0, 0.0, 1.0, 2.0])])
def test_inputs_that_are_always_zero(moments):
    weights = np.array([[7.0, -3.2, 0.6, 1.0], [0.0, 0.0, 0.0, 0.0]])
    numbers, scales = gptq(weights, moments.astype(np.float32))
    steps = _steps(weights, np.diag(moments))
    np.testing.assert_array_equal(numbers, nearest(weights, steps))
    assert numbers.dtype == np.int8
    assert scales.dtype == np.float32
    assert np.isfinite(scales).all()
    assert (scales > 0).all()


def test_a_row_is_cut_off_where_the_others_gain_by_it():
    """Not where the largest weight's input is the one that counts."""
    weights = normal(1, 100)
    weights[0, 0] = 12.0
    for first, cut in ((0.01, True), (100.0, False)):
        squares = np.ones(100)
        squares[0] = first
        numbers, scales = gptq(weights, np.diag(squares))
        assert (scales[0] < 0.9 * 12 / 7) == cut
        assert numbers[0, 0] == 7


def test_a_row_that_is_looked_up_is_less_off_than_of_the_longest_step():
    rows = normal(20, 300)
    numbers, scales = round_rows(rows)
    off = np.square(numbers * scales[:, None] - rows).sum(axis=1)
    longest = np.abs(rows).max(axis=1) / 7
    plain = np.square(nearest(rows, longest) * longest[:, None] - rows).sum(axis=1)
    assert (off < 1.01 * plain).all()
    assert off.sum() < 0.8 * plain.sum()


def test_a_row_that_is_looked_up_reaches_as_far_along_itself():
    """Else a model that scores with its table would be less sure of everything."""
    rows = normal(20, 300)
    numbers, scales = round_rows(rows)
    assert (np.abs(rows).max(axis=1) / scales > 8).any()  # some are cut off
    along = (numbers * scales[:, None] * rows).sum(axis=1)
    np.testing.assert_allclose(along, np.square(rows).sum(axis=1), rtol=1e-5)


def test_a_row_of_zeros():
    numbers, scales = round_rows(np.zeros((2, 8), np.float32))
    assert not numbers.any()
    assert scales.tolist() == [1.0, 1.0]
