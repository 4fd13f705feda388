"""One table, read both ways."""

import numpy as np
import tensorflow as tf

from model.layers.embeddings import SegmentEmbedding, TokenEmbedding

TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def token_embedding(**options) -> TokenEmbedding:
    layer = TokenEmbedding(3, 2, **options)
    layer.build((None, None))
    layer.set_weights([TABLE])
    return layer


def test_lookup_and_projection_by_hand():
    layer = token_embedding()
    assert layer(np.array([[2, 0]])).numpy().tolist() == [[[5.0, 7.0], [1.0, 2.0]]]
    scores = layer(np.array([[[1.0, -1.0]]], "float32"), reverse=True)
    assert scores.numpy().tolist() == [[[-1.0, -1.0, -2.0]]]


def test_both_ways_train_one_variable():
    layer = token_embedding()
    assert len(layer.weights) == 1
    (table,) = (weight.value for weight in layer.weights)
    with tf.GradientTape() as tape:
        vectors = layer(np.array([[0]]))
        loss = tf.reduce_sum(layer(vectors, reverse=True)[..., 1])  # e0 · e1
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
    # d(e0 · e1) = e1 in row 0, from the lookup, and e0 in row 1, from the projection.
    assert gradient.tolist() == [[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]


def test_the_projection_runs_in_the_compute_dtype():
    layer = token_embedding(dtype="mixed_bfloat16")
    assert layer.embeddings.dtype == "float32"
    assert layer(np.array([[0]])).dtype == "bfloat16"
    assert layer(np.ones((1, 1, 2), "float32"), reverse=True).dtype == "bfloat16"


def test_a_segment_is_added():
    layer = SegmentEmbedding(2)
    x = np.full((1, 2, 2), 10.0, "float32")
    layer.build(x.shape, (1, 2))
    layer.set_weights([TABLE[:2]])
    summed = layer(x, np.array([[1, 0]], "int32")).numpy()
    assert summed.tolist() == [[[13.0, 14.0], [11.0, 12.0]]]
