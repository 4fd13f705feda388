"""The loss of a large vocabulary beside its reference: values and gradients."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels.cross_entropy import cross_entropy, plain_cross_entropy

pytestmark = tensorflow_only


def both(function, logits, targets, worth):
    """Values, and the gradient of the two weighed by `worth`."""
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        nats, log_sum = function(x, tf.constant(targets))
        total = tf.reduce_sum(nats * worth[0] + log_sum * worth[1])
    return nats.numpy(), log_sum.numpy(), tape.gradient(total, x).numpy()


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    classes=st.integers(1, 40),
    spread=st.sampled_from([0.1, 5.0, 80.0]),
    seed=st.integers(0, 2**16),
)
def test_equals_its_reference(shape, classes, spread, seed) -> None:
    random = np.random.default_rng(seed)
    logits = (random.normal(size=(*shape, classes)) * spread).astype("float32")
    targets = random.integers(0, classes, shape).astype("int32")
    worth = random.normal(size=(2, *shape)).astype("float32")
    ours = both(cross_entropy, logits, targets, worth)
    expected = both(plain_cross_entropy, logits, targets, worth)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1.0, spread))


def test_a_target_without_any_chance_has_a_finite_cost_and_gradient() -> None:
    logits = np.array([[0.0, 1e4, -1e4]], "float32")
    ones = np.ones((2, 1), "float32")
    nats, log_sum, gradient = both(cross_entropy, logits, np.array([2], "int32"), ones)
    assert nats[0] == pytest.approx(2e4)
    assert log_sum[0] == pytest.approx(1e4)
    np.testing.assert_allclose(gradient, [[0.0, 2.0, -1.0]])


def test_with_sizes_that_are_not_known() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 7)).astype("float32")
    targets = np.array([[0, 1, 2], [6, 5, 4]], "int32")

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, 7)),
            tf.TensorSpec((None, None), tf.int32),
        ]
    )
    def traced(logits, targets):
        nats, _ = cross_entropy(logits, targets)
        assert nats.shape.rank == 2
        return nats, tf.gradients(nats, logits)[0]

    nats, gradient = traced(logits, targets)
    ones = np.stack([np.ones((2, 3)), np.zeros((2, 3))]).astype("float32")
    expected, _, slope = both(plain_cross_entropy, logits, targets, ones)
    np.testing.assert_allclose(nats, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-6)
