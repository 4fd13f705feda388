"""The chunked loss and the plain one: the same values, the same gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from model.layers.vocabulary_loss import VocabularyLoss
from tests.model.compiling import compiled
from tests.model.conftest import tensorflow_only
from tests.model.gradients import value_and_gradients

WIDTH, VOCABULARY = 6, 11
# bfloat16 rounds a score of 8 by up to 1/64, and with it a probability by 1/64 of
# itself. A compiler may leave the rounding out on either side.
ROUNDING = 2 / 64


def plain(vectors, table, targets, bias=None):
    """All logits at once, by Keras's own loss."""
    logits = ops.matmul(vectors, ops.transpose(table))[..., :VOCABULARY]
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + bias
    loss = keras.losses.sparse_categorical_crossentropy(
        targets, logits, from_logits=True
    )
    correct = ops.equal(ops.argmax(logits, axis=-1), targets)
    return {"cross_entropy": loss, "correct": ops.cast(correct, "float32")}


def example(batch: int = 2, length: int = 5, rows: int = VOCABULARY):
    rng = np.random.default_rng(batch * length)
    vectors, table, bias = (
        # As the weights of our embeddings and biases are.
        keras.Variable(rng.normal(size=shape).astype("float32"), autocast=False)
        for shape in ((batch, length, WIDTH), (rows, WIDTH), (VOCABULARY,))
    )
    targets = rng.integers(0, VOCABULARY, (batch, length)).astype("int32")
    worth = rng.normal(size=(batch, length)).astype("float32")
    return vectors, table, bias, targets, worth


def assert_as_plain(batch, length, chunk_tokens, rows, with_bias, how=compiled):
    vectors, table, bias, targets, worth = example(batch, length, rows)
    layer = VocabularyLoss(VOCABULARY, chunk_tokens=chunk_tokens)
    variables = [vectors, table, bias] if with_bias else [vectors, table]

    def answer(loss):
        return loss(vectors, table, targets, bias if with_bias else None)

    def values_and_slopes(loss):
        return value_and_gradients(
            how(lambda: answer(loss)["cross_entropy"] * worth), variables
        )

    ours, our_slopes = values_and_slopes(layer)
    theirs, their_slopes = values_and_slopes(plain)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6)
    for mine, other in zip(our_slopes, their_slopes, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(answer(layer)["correct"], answer(plain)["correct"])


@pytest.mark.parametrize("how", [compiled, lambda function: function])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows", [VOCABULARY, 16])
def test_value_and_gradients(rows, with_bias, how):
    assert_as_plain(2, 5, 4, rows, with_bias, how)


@pytest.mark.parametrize(
    ("batch", "length", "chunk_tokens"),
    [(1, 1, 1), (1, 5, 1), (2, 4, 4), (2, 4, 8), (3, 3, 4), (3, 4, 100)],
)
def test_any_number_of_tokens_in_chunks_of_any_size(batch, length, chunk_tokens):
    assert_as_plain(batch, length, chunk_tokens, rows=16, with_bias=True)


def test_by_hand():
    # Scores 0 and log 3: probabilities 1/4 and 3/4.
    vectors = np.array([[[1.0], [1.0]]], "float32")
    table = np.array([[0.0], [np.log(3)]], "float32")
    result = VocabularyLoss(2)(vectors, table, np.array([[0, 1]]))
    np.testing.assert_allclose(
        result["cross_entropy"], [[np.log(4), np.log(4 / 3)]], rtol=1e-6
    )
    assert np.asarray(result["correct"]).tolist() == [[0.0, 1.0]]


def test_a_dense_kernel():
    vectors, table, _, targets, worth = example()
    kernel = keras.Variable(np.asarray(table.value).T.copy())
    layer = VocabularyLoss(VOCABULARY, chunk_tokens=4, transposed=True)

    def slopes(loss, weights):
        def values():
            return loss(vectors, weights, targets)["cross_entropy"] * worth

        return value_and_gradients(compiled(values), [vectors, weights])[1]

    ours, theirs = slopes(layer, kernel), slopes(plain, table)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=5e-6)
    np.testing.assert_allclose(ours[1].T, theirs[1], rtol=0, atol=5e-6)


def test_rows_past_the_vocabulary_get_no_gradient():
    vectors, table, _, targets, _ = example(rows=16)
    large = np.asarray(table.value).copy()
    large[VOCABULARY:] = 50.0
    table.assign(large)
    layer = VocabularyLoss(VOCABULARY, chunk_tokens=4)
    _, (slope,) = value_and_gradients(
        lambda: layer(vectors, table, targets)["cross_entropy"], [table]
    )
    assert np.abs(slope[:VOCABULARY]).max() > 0.1
    assert not slope[VOCABULARY:].any()


def test_scores_far_apart_stay_finite():
    vectors = keras.Variable([[[1.0], [-1.0]]])
    table = keras.Variable([[0.0], [1000.0]])
    layer = VocabularyLoss(2)

    def loss():
        return layer(vectors, table, np.array([[0, 0]]))["cross_entropy"]

    values, (to_vectors, to_table) = value_and_gradients(loss, [vectors, table])
    assert values.tolist() == [[1000.0, 0.0]]
    assert to_vectors.ravel().tolist() == [1000.0, 0.0]
    assert to_table.ravel().tolist() == [-1.0, 1.0]


def test_half_precision_is_in_the_products_only():
    vectors, table, bias, targets, worth = example()
    layer = VocabularyLoss(VOCABULARY, chunk_tokens=4, dtype="mixed_bfloat16")

    def rounded(vectors, table, targets, bias):
        return plain(
            ops.cast(vectors, "bfloat16"), ops.cast(table, "bfloat16"), targets, bias
        )

    found = layer(vectors, table, targets, bias)
    expected = rounded(vectors, table, targets, bias)
    for name, value in found.items():
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=ROUNDING)

    def slopes(loss):
        def values():
            return loss(vectors, table, targets, bias)["cross_entropy"] * worth

        return value_and_gradients(compiled(values), [vectors, table, bias])[1]

    for ours, theirs in zip(slopes(layer), slopes(rounded), strict=True):
        assert ours.dtype == np.float32
        assert np.linalg.norm(ours - theirs) < np.linalg.norm(theirs) * ROUNDING


@tensorflow_only  # JAX compiles for known lengths only
def test_a_length_that_is_known_at_run_time_only():
    import tensorflow as tf

    vectors, table, bias, targets, worth = example()
    layer = VocabularyLoss(VOCABULARY, chunk_tokens=4)
    any_length = tf.function(
        lambda x, ids: layer(x, table, ids, bias)["cross_entropy"],
        input_signature=[
            tf.TensorSpec((None, None, WIDTH)),
            tf.TensorSpec((None, None), "int32"),
        ],
    )
    variables = [vectors, table, bias]
    ours, our_slopes = value_and_gradients(
        lambda: any_length(vectors.value, targets) * worth, variables
    )
    theirs, their_slopes = value_and_gradients(
        lambda: plain(vectors, table, targets, bias)["cross_entropy"] * worth, variables
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6)
    for mine, other in zip(our_slopes, their_slopes, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=5e-6)


def test_what_a_model_announces():
    result = VocabularyLoss(VOCABULARY, dtype="mixed_bfloat16")(
        keras.Input((None, WIDTH)),
        keras.Input(batch_shape=(VOCABULARY, WIDTH)),
        keras.Input((None,), dtype="int32"),
    )
    for name in ("cross_entropy", "correct"):
        assert result[name].shape == (None, None)
        assert result[name].dtype == "float32"


@pytest.mark.parametrize(
    ("vectors", "table", "targets", "message"),
    [
        ((2, 6), (11, 6), (2, 5), r"inputs has shape \(2, 6\)"),
        ((2, 5, 6), (11, 6), (2,), r"target_ids has shape \(2,\)"),
        ((2, 5, 6), (11,), (2, 5), r"table has shape \(11,\)"),
        ((2, 5, 6), (11, 7), (2, 5), r"table has shape \(11, 7\); expected \(V, 6\)"),
        ((2, 5, 6), (10, 6), (2, 5), "at least vocabulary_size=11"),
    ],
)
def test_what_does_not_fit_is_refused(vectors, table, targets, message):
    layer = VocabularyLoss(11)
    with pytest.raises(ValueError, match=message):
        layer(
            np.zeros(vectors, "float32"),
            np.zeros(table, "float32"),
            np.zeros(targets, "int32"),
        )


def test_targets_that_are_no_whole_numbers_are_refused():
    with pytest.raises(ValueError, match="target_ids has dtype float32"):
        VocabularyLoss(11)(
            np.zeros((2, 5, 6), "float32"),
            np.zeros((11, 6), "float32"),
            np.zeros((2, 5), "float32"),
        )
