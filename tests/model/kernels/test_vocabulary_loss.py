"""The loss in chunks and the plain one: the same sums, the same gradients."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.compiling import ON_JAX, compiled, compiled_on_jax
from tests.model.conftest import tensorflow_only
from tests.model.gradients import value_and_gradients
from transbeam.model.kernels.cross_entropy import plain_cross_entropy
from transbeam.model.kernels.vocabulary_loss import vocabulary_loss

WIDTH = 6
NAMES = ("cost", "nats", "correct")


def plain(vectors, table, bias, targets, weights, *, label_smoothing=0.0, z_loss=0.0):
    """All scores at once, as `transbeam.trainer.objectives.losses` has them."""
    scores = ops.cast(ops.matmul(vectors, ops.transpose(table)), "float32")
    if bias is not None:
        scores = scores + bias
    nats, log_sum = plain_cross_entropy(scores, targets)
    cost = nats + z_loss * log_sum**2
    cost = cost + label_smoothing * (log_sum - ops.mean(scores, axis=-1) - nats)
    correct = ops.cast(ops.equal(ops.argmax(scores, axis=-1), targets), "float32")
    return tuple(ops.sum(each * weights) for each in (cost, nats, correct))


def example(number: int, size: int, *, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    vectors, table, bias = (
        # As the weights of our embeddings and biases are.
        keras.Variable(
            spread * rng.normal(size=shape).astype("float32"), autocast=False
        )
        for shape in ((number, WIDTH), (size, WIDTH), (size,))
    )
    targets = rng.integers(0, size, number).astype("int32")
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], number).astype("float32")
    return vectors, table, bias, targets, weights


def assert_as_plain(
    number,
    size,
    *,
    with_bias=True,
    most_scores=2**20,
    spread=1.0,
    compiling=compiled_on_jax,
    **options,
):
    vectors, table, bias, targets, weights = example(number, size, spread=spread)
    variables = [vectors, table, *([bias] if with_bias else [])]

    def all_of(loss, **more):
        arguments = (vectors, table, bias if with_bias else None)
        sums = loss(*arguments, targets, weights, **options, **more)
        # Nats and guesses have no gradient in one and have in the other.
        return ops.stack([0.7 * sums[0], *map(ops.stop_gradient, sums[1:])])

    ours = value_and_gradients(
        compiling(lambda: all_of(vocabulary_loss, most_scores=most_scores)), variables
    )
    theirs = value_and_gradients(compiled_on_jax(lambda: all_of(plain)), variables)
    tolerance = 2e-5 * max(1.0, spread**2)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=tolerance)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance * number)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("most_scores", [1, 40, 2**20])
def test_sums_and_gradients(with_bias, most_scores) -> None:
    assert_as_plain(
        11,
        13,
        with_bias=with_bias,
        most_scores=most_scores,
        compiling=compiled,
        label_smoothing=0.2,
        z_loss=0.01,
    )


@settings(max_examples=4 if ON_JAX else 12, deadline=None)
@given(
    number=st.integers(1, 9),
    size=st.integers(2, 12),  # Keras warns of a choice among one
    most_scores=st.integers(1, 120),
    with_bias=st.booleans(),
    label_smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    z_loss=st.sampled_from([0.0, 1e-2]),
    spread=st.sampled_from([0.1, 1.0, 6.0]),
)
def test_any_number_of_tokens_in_chunks_of_any_size(**case) -> None:
    assert_as_plain(case.pop("number"), case.pop("size"), **case)


@pytest.mark.quick_on_jax
def test_by_hand() -> None:
    # Scores 0 and log 3: probabilities 1/4 and 3/4.
    sums = vocabulary_loss(
        ops.ones((2, 1)),
        ops.convert_to_tensor(np.array([[0.0], [np.log(3)]], "float32")),
        None,
        np.array([0, 1], "int32"),
        np.array([1.0, 3.0], "float32"),
        label_smoothing=0.5,
        z_loss=0.25,
    )
    nats = np.log(4) + 3 * np.log(4 / 3)
    evenly = 4 * (np.log(4) - np.log(3) / 2)
    cost = 0.5 * nats + 0.5 * evenly + 0.25 * 4 * np.log(4) ** 2
    expected = dict(zip(NAMES, (cost, nats, 3.0), strict=True))
    for name, value in zip(NAMES, sums, strict=True):
        assert float(value) == pytest.approx(expected[name], rel=1e-6), name


@pytest.mark.quick_on_jax
@pytest.mark.parametrize("most_scores", [2, 100])
def test_what_weighs_nothing_has_no_share(most_scores) -> None:
    """Not even where it is padding of the last chunk, or has gigantic scores."""
    vectors, table, _, targets, _ = example(5, 4)
    large = np.asarray(vectors.value).copy()
    large[1] = 1e6
    vectors.assign(large)
    weights = np.array([1.0, 0.0, 1.0, 1.0, 1.0], "float32")
    kept = [0, 2, 3, 4]

    def cost(places):
        rows = ops.convert_to_tensor(places)
        return vocabulary_loss(
            ops.take(vectors, rows, axis=0),
            ops.convert_to_tensor(table),
            None,
            targets[places],
            weights[places],
            most_scores=most_scores,
        )[0]

    every, (to_vectors, to_table) = value_and_gradients(
        lambda: cost(np.arange(5)), [vectors, table]
    )
    some, (to_some, to_same_table) = value_and_gradients(
        lambda: cost(np.array(kept)), [vectors, table]
    )
    assert every == pytest.approx(some, rel=1e-6)
    assert not to_vectors[1].any()
    np.testing.assert_allclose(to_vectors[kept], to_some[kept], rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_table, to_same_table, rtol=0, atol=1e-6)


def test_scores_far_apart_stay_finite() -> None:
    vectors = keras.Variable([[1.0], [-1.0]])
    table = keras.Variable([[0.0], [1000.0]])

    def cost():
        targets, weights = np.zeros(2, "int32"), np.ones(2, "float32")
        table_now = ops.convert_to_tensor(table)
        return vocabulary_loss(
            ops.convert_to_tensor(vectors), table_now, None, targets, weights
        )[0]

    value, (to_vectors, to_table) = value_and_gradients(cost, [vectors, table])
    assert float(value) == 1000.0
    assert to_vectors.ravel().tolist() == [1000.0, 0.0]
    assert to_table.ravel().tolist() == [-1.0, 1.0]


@pytest.mark.quick_on_jax
def test_half_precision_is_in_the_products_only() -> None:
    vectors, table, bias, targets, weights = example(10, 11)
    arguments = (bias, targets, weights)

    def cost(loss, *, rounded):
        x, rows = ops.cast(vectors, "bfloat16"), ops.convert_to_tensor(table)
        if rounded:  # both factors, and a product without further rounding
            rows = ops.cast(ops.cast(rows, "bfloat16"), "float32")
            x = ops.cast(x, "float32")
        return loss(x, rows, *arguments)[0]

    variables = [vectors, table, bias]
    value, slopes = value_and_gradients(
        compiled(lambda: cost(vocabulary_loss, rounded=False)), variables
    )
    expected, wanted = value_and_gradients(
        compiled(lambda: cost(plain, rounded=True)), variables
    )
    # A product may be rounded to bfloat16, by 1/256 of itself, before it is widened.
    assert float(value) == pytest.approx(float(expected), rel=2 / 256)
    for ours, theirs in zip(slopes, wanted, strict=True):
        assert ours.dtype == np.float32
        assert np.linalg.norm(ours - theirs) < np.linalg.norm(theirs) * 2 / 64


@tensorflow_only  # JAX compiles for known numbers only
def test_a_number_that_is_known_at_run_time_only() -> None:
    import tensorflow as tf

    every, table, bias, all_targets, all_weights = example(12, 7)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, WIDTH)),
            tf.TensorSpec((None,), "int32"),
            tf.TensorSpec((None,)),
        ]
    )
    def any_number(x, ids, weights):
        arguments = (tf.convert_to_tensor(table.value), tf.identity(bias.value))
        return vocabulary_loss(x, *arguments, ids, weights, most_scores=42)[0]

    for number in (1, 5, 6, 12):
        vectors = keras.Variable(every.numpy()[:number], autocast=False)
        asked = all_targets[:number], all_weights[:number]
        variables = [vectors, table, bias]
        ours, slopes = value_and_gradients(
            lambda vectors=vectors, asked=asked: any_number(vectors.value, *asked),
            variables,
        )
        theirs, wanted = value_and_gradients(
            lambda vectors=vectors, asked=asked: plain(vectors, table, bias, *asked)[0],
            variables,
        )
        assert float(ours) == pytest.approx(float(theirs), rel=2e-6)
        for mine, other in zip(slopes, wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=2e-5)
    assert any_number.experimental_get_tracing_count() == 1
