"""Reference for the efficient kinds of attention: a mask of all pairs."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tests.model.gradients import value_and_gradients
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.full import MultiHeadAttention

D, H = 12, 4
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]

PROJECTIONS = ("query", "key", "value", "output_projection")

SequenceInfo = dict[str, np.ndarray]


def floats(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def randomised(layer: Attention) -> Attention:
    """Builds a layer with weights that make scores of some units."""
    layer.build((None, None, D))
    rng = np.random.default_rng(2)
    layer.set_weights([0.4 * rng.normal(size=w.shape) for w in layer.weights])
    return layer


def full_twin(layer: Attention) -> MultiHeadAttention:
    """Full attention by the same projections."""
    full = MultiHeadAttention(
        D,
        H,
        num_key_value_heads=layer.num_key_value_heads,
        head_dim=layer.head_dim,
        causal=layer.causal,
    )
    full.build((None, None, D))
    for name in PROJECTIONS:
        getattr(full, name).set_weights(getattr(layer, name).get_weights())
    return full


def packed(*rows: list[int], padding: int = 0) -> SequenceInfo:
    """Sequence info of rows with documents of these lengths, and padding at the end."""
    length = max(map(sum, rows)) + padding
    ids, positions = np.zeros((2, len(rows), length), "int32")
    for row, lengths in enumerate(rows):
        begin = 0
        for number, size in enumerate(lengths, start=1):
            ids[row, begin : begin + size] = number
            positions[row, begin : begin + size] = np.arange(size)
            begin += size
    return {"document_ids": ids, "position_ids": positions}


def padded(*lengths: int, to: int) -> SequenceInfo:
    """Sequence info of rows with one document each, and padding at the end."""
    return {
        "padding_mask": np.array(
            [np.arange(to) < length for length in lengths], "int32"
        )
    }


def left_padded(*lengths: int, to: int) -> SequenceInfo:
    """Sequence info of rows with one document each, and padding before it."""
    return {
        name: np.ascontiguousarray(ids[:, ::-1])
        for name, ids in padded(*lengths, to=to).items()
    } | {
        "position_ids": np.array(
            [np.maximum(np.arange(to) - (to - length), 0) for length in lengths],
            "int32",
        )
    }


def documents(sequence_info: SequenceInfo) -> tuple[np.ndarray, np.ndarray]:
    """The document and the position of each token, `(B, T)`."""
    ids = sequence_info.get("document_ids", sequence_info.get("padding_mask"))
    assert ids is not None
    index = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    return ids, sequence_info.get("position_ids", index)


def same_document(sequence_info: SequenceInfo) -> np.ndarray:
    """Mask of the pairs of real tokens of one document, `(B, T, T)`."""
    ids, _ = documents(sequence_info)
    return (ids[:, :, None] == ids[:, None]) & (ids[:, None] != 0)


def real(sequence_info: SequenceInfo) -> np.ndarray:
    return documents(sequence_info)[0] != 0


def dense_attention(
    layer: Attention,
    heads: tuple[Any, Any, Any],
    sequence_info: SequenceInfo,
    mask: np.ndarray,
) -> Any:
    """Softmax of all pairs: query `(B, T, H, K)`, key and value `(B, T, G, K)`.

    Args:
        layer: For its score bias.
        heads: The three.
        sequence_info: For the bias's table.
        mask: bool `(B, T, T)` or `(B, H, T, T)`.

    Returns:
        `(B, T, H, K)`.
    """
    query, key, value = heads
    shared = query.shape[2] // key.shape[2]
    key, value = ops.repeat(key, shared, axis=2), ops.repeat(value, shared, axis=2)
    scores = ops.einsum("bqhk,bshk->bhqs", query, key)
    if layer.score_bias is not None:
        index = ops.arange(key.shape[1], dtype="int32")
        scores = scores + layer.score_bias(
            index, index, sequence_info.get("bias_table")
        )
    mask = mask if mask.ndim == 4 else mask[:, None]
    # A row without any key: what it says means nothing, but it must be a number.
    scores = ops.where(mask, scores, -1e30)
    return ops.einsum("bhqs,bshk->bqhk", ops.softmax(scores, axis=-1), value)


def compare(
    layer: Attention,
    x: np.ndarray,
    sequence_info: SequenceInfo,
    expected,
    *,
    atol: float = 2e-5,
) -> None:
    """The layer's outputs for real tokens, and all gradients, are those expected.

    Args:
        layer: The layer, built.
        x: `(B, T, D)`.
        sequence_info: The masks and positions of `x`.
        expected: Called with the inputs as a tensor; gives `(B, T, D)`.
        atol: For values of a few units, added up in another order.
    """
    inputs = keras.Variable(x)
    worth = floats(*x.shape, seed=3) * real(sequence_info)[..., None]
    variables = [inputs, *layer.trainable_variables]
    here, gradients = value_and_gradients(
        lambda: layer(ops.convert_to_tensor(inputs), sequence_info) * worth, variables
    )
    there, expected_gradients = value_and_gradients(
        lambda: expected(ops.convert_to_tensor(inputs)) * worth, variables
    )
    np.testing.assert_allclose(here, there, rtol=0, atol=atol)
    for variable, left, right in zip(
        variables, gradients, expected_gradients, strict=True
    ):
        # Sums over all tokens.
        np.testing.assert_allclose(
            left, right, rtol=1e-4, atol=20 * atol, err_msg=variable.path
        )


def check_packed_is_alone(layer: Attention, *lengths: int, atol: float = 2e-5) -> None:
    """Documents in one row give the outputs and gradients of a row for each.

    Args:
        layer: The layer, built.
        lengths: Of the documents.
        atol: See `compare`.
    """
    together, alone = (
        packed(list(lengths), padding=3),
        padded(*lengths, to=max(lengths)),
    )
    x = floats(1, sum(lengths) + 3, D)
    ids, positions = documents(together)
    inside = ids[0] != 0
    rows, columns = ids[0][inside] - 1, positions[0][inside]

    def of_each_alone(inputs):
        apart = np.zeros((len(lengths), max(lengths)), "int32")
        apart[rows, columns] = np.flatnonzero(inside)
        outputs = layer(ops.take(inputs[0], apart, axis=0), alone)
        outputs = ops.reshape(outputs, (-1, outputs.shape[-1]))
        found = ops.take(outputs, rows * max(lengths) + columns, axis=0)
        return ops.pad(found, [(0, 3), (0, 0)])[None]

    compare(layer, x, together, of_each_alone, atol=atol)


def largest_tensor(layer: Attention, length: int, training: bool = False) -> int:
    """Size of the largest tensor in TensorFlow's graph."""
    import tensorflow as tf

    def all_tensors(graph):
        for operation in graph.get_operations():
            yield from operation.outputs

    @tf.function
    def call(x, padding_mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, {"padding_mask": padding_mask}, training=training)
            total = tf.reduce_sum(outputs)
        return tape.gradient(total, x)

    graph = call.get_concrete_function(
        tf.TensorSpec((1, length, D)), tf.TensorSpec((1, length), "int32")
    ).graph
    functions = [f.graph for f in graph._functions.values() if hasattr(f, "graph")]
    sizes = [
        int(np.prod(tensor.shape))
        for part in (graph, *functions)
        for tensor in all_tensors(part)
        if tensor.shape.is_fully_defined()
    ]
    return max(sizes)


def attention_work(layer: Attention, length: int) -> int:
    """Counts the multiply-adds of scores and weighted values in a forward pass.

    Counted in TensorFlow's graph, with the probabilities watched so that all of them
    are made at once.
    """
    import tensorflow as tf

    call = tf.function(lambda x, mask: layer(x, {"padding_mask": mask}))
    with layer.probabilities.watch():
        graph = call.get_concrete_function(
            tf.TensorSpec((1, length, D)), tf.TensorSpec((1, length), "int32")
        ).graph
    products = [op for op in graph.get_operations() if op.type == "BatchMatMulV2"]
    work = 0
    for product in products:
        left = product.inputs[0].shape
        inner = left[-2] if product.get_attr("adj_x") else left[-1]
        work += int(np.prod(product.outputs[0].shape)) * inner
    return work
