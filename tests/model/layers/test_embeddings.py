"""One table, read both ways."""

import keras
import keras_hub
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.model.layers.embeddings import SegmentEmbedding, TokenEmbedding

TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def token_embedding(**options) -> TokenEmbedding:
    layer = TokenEmbedding(3, 2, **options)
    layer.build((None, None))
    # The rows past the vocabulary are larger than any other.
    extra = np.full((layer.num_rows - 3, 2), 100.0)
    layer.set_weights([np.concatenate([TABLE, extra])])
    return layer


def test_lookup_and_projection_by_hand():
    layer = token_embedding()
    vectors = np.asarray(layer(np.array([[2, 0]])))
    assert vectors.tolist() == [[[5.0, 7.0], [1.0, 2.0]]]
    scores = np.asarray(layer(np.array([[[1.0, -1.0]]], "float32"), reverse=True))
    assert scores.tolist() == [[[-1.0, -1.0, -2.0]]]


def test_both_ways_train_one_variable():
    layer = token_embedding()
    assert len(layer.weights) == 1

    def loss():
        vectors = layer(np.array([[0]]))
        return layer(vectors, reverse=True)[..., 1]  # e0 · e1

    _, (gradient,) = value_and_gradients(loss, layer.weights)
    # d(e0 · e1) = e1 in row 0, from the lookup, and e0 in row 1, from the projection.
    assert gradient.tolist() == [[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]


def test_the_projection_runs_in_the_compute_dtype():
    layer = token_embedding(dtype="mixed_bfloat16")
    assert layer.embeddings.dtype == "float32"
    vectors = layer(np.array([[0]]))
    assert keras.backend.standardize_dtype(vectors.dtype) == "bfloat16"
    # 1 + 1/256 is 1 in bfloat16; the answer is given in float32.
    scores = layer(np.full((1, 1, 2), 1 + 1 / 256, "float32"), reverse=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert np.asarray(scores).tolist() == [[[3.0, 7.0, 12.0]]]


def test_rows_past_the_vocabulary_have_no_score_and_no_gradient():
    layer = token_embedding(vocabulary_multiple=4)
    assert tuple(layer.embeddings.shape) == (4, 2)
    vectors = np.array([[[1.0, -1.0]]], "float32")
    assert np.asarray(layer(vectors, reverse=True)).tolist() == [[[-1.0, -1.0, -2.0]]]

    def loss():
        logits = layer(layer(np.array([[0, 1, 2]])), reverse=True)
        return keras.ops.logsumexp(logits, axis=-1)

    _, (gradient,) = value_and_gradients(loss, layer.weights)
    assert gradient[:3].all()
    assert not gradient[3].any()


@pytest.mark.parametrize(("multiple", "rows"), [(1, 3), (3, 3), (2, 4), (64, 64)])
def test_the_table_is_rounded_up(multiple, rows):
    assert TokenEmbedding(3, 2, vocabulary_multiple=multiple).num_rows == rows


def test_only_the_lookup_is_scaled():
    layer = TokenEmbedding(3, 4, scale=True, embeddings_initializer="ones")
    assert np.asarray(layer(np.array([[1]]))).tolist() == [[[2.0] * 4]]
    scores = layer(np.ones((1, 1, 4), "float32"), reverse=True)
    assert np.asarray(scores).tolist() == [[[4.0] * 3]]


@pytest.mark.parametrize(
    ("token_ids", "message"),
    [
        (np.array([[1.0]], "float32"), "token_ids has dtype float32"),
        (np.array([1]), r"token_ids has shape \(1,\); expected \(batch, length\)"),
        (np.array([[0, 3]]), r"\(1, 2\), go from 0 to 3; expected from 0 to 2"),
        (np.array([[0, -1]]), r"\(1, 2\), go from -1 to 0; expected from 0 to 2"),
    ],
)
def test_what_is_no_id_of_a_token_is_refused(token_ids, message):
    # One row more than there are tokens: the last one is nobody's.
    layer = TokenEmbedding(3, 2, vocabulary_multiple=4, name="token_embedding")
    with pytest.raises(ValueError, match=f"token_embedding: .*{message}"):
        layer(token_ids)


@pytest.mark.parametrize(
    ("segment_ids", "message"),
    [
        (np.array([[0, 1]]), r"segment_ids has shape \(1, 2\); expected \(1, 3\)"),
        (np.array([[0, 1, 2]]), "go from 0 to 2; expected from 0 to 1"),
        (np.array([[0.0, 1.0, 1.0]]), "segment_ids has dtype float"),
    ],
)
def test_what_is_no_id_of_a_segment_is_refused(segment_ids, message):
    with pytest.raises(ValueError, match=message):
        SegmentEmbedding(2)(np.zeros((1, 3, 4), "float32"), segment_ids)


def test_the_seed_decides():
    def table(seed):
        layer = TokenEmbedding(3, 2, embeddings_initializer="uniform", seed=seed)
        layer.build((None, None))
        return np.asarray(layer.embeddings.value)

    np.testing.assert_array_equal(table(1), table(1))
    assert np.abs(table(1) - table(2)).max() > 1e-3


def test_against_keras_hub():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(11, 4))
    worth = rng.normal(size=(2, 3, 11)).astype("float32")
    ids = rng.integers(0, 11, (2, 3)).astype("int32")

    def scores_and_slope(layer):
        layer.build((None, None))
        layer.set_weights([table])
        return value_and_gradients(
            lambda: layer(layer(ids), reverse=True) * worth, layer.weights
        )

    ours, (our_slope,) = scores_and_slope(TokenEmbedding(11, 4))
    theirs, (their_slope,) = scores_and_slope(
        keras_hub.layers.ReversibleEmbedding(11, 4)
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    np.testing.assert_allclose(our_slope, their_slope, rtol=0, atol=1e-5)


def segment_embedding(num_segments: int) -> SegmentEmbedding:
    layer = SegmentEmbedding(num_segments, name="segment_embedding")
    layer.build((1, 2, 2))
    layer.set_weights([TABLE[:num_segments]])
    return layer


def test_a_segment_is_added():
    x = np.full((1, 2, 2), 10.0, "float32")
    summed = np.asarray(segment_embedding(2)(x, np.array([[1, 0]], "int32")))
    assert summed.tolist() == [[[13.0, 14.0], [11.0, 12.0]]]


@pytest.mark.parametrize("num_segments", [1, 2])
def test_without_ids_all_are_of_the_first_segment(num_segments):
    x = np.full((1, 2, 2), 10.0, "float32")
    summed = np.asarray(segment_embedding(num_segments)(x))
    assert summed.tolist() == [[[11.0, 12.0], [11.0, 12.0]]]
