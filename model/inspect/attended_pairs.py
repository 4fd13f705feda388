"""Pairs of tokens between which an attention layer passes information.

A token sees another one if its output changes when the other's input does. This holds
for every kind of attention, also for those without a score for each pair, and shows
what the layer computes, not what a formula says of it.
"""

from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.schema.attention import Attention, BlockSparseAttentionConfig
from transbeam.configs.schema.block import NoPositionConfig
from transbeam.model.stack.layer_factory import build_attention
from transbeam.model.stack.stack_spec import StackSpec

# More cells cannot be distinguished in a small picture.
MOST_CELLS = 64
# Rows of a batch: each has all tokens, and one cell of them changed.
_AT_ONCE = 8
_HEAD_DIM = 8
# Relative to the largest output: far above the rounding of float32, far below the
# effect of one token among thousands.
_CHANGED = 1e-5


def attention_of_shape(
    spec: StackSpec, attention: Attention | None = None
) -> keras.layers.Layer:
    """Builds a small attention layer that connects the same tokens.

    Args:
        spec: The stack with the attention.
        attention: Another attention config, to be used in its place.

    Returns:
        The layer of the stack's first block, with one narrow head, as the widths do not
        change which tokens are connected; for block sparse attention with all heads,
        which have random blocks of their own. It has no position encoding, which
        changes how strongly tokens are connected.
    """
    attention = attention or spec.attention
    has_random = isinstance(attention, BlockSparseAttentionConfig)
    narrow = replace(
        attention,
        num_heads=attention.num_heads if has_random else 1,
        num_key_value_heads=None,
        head_dim=_HEAD_DIM,
        dropout=0.0,
    )
    config = replace(
        spec.config,
        hidden_dim=narrow.num_heads * _HEAD_DIM,
        embedding_dim=None,
        attention=narrow,
        position=NoPositionConfig(),
    )
    block = f"{'decoder' if spec.causal else 'encoder'}_layer_0"
    plan = replace(spec, config=config, attention=narrow, dtype="float32").at(block)
    return build_attention(plan, "self_attention")


def attended_pairs(
    layer: keras.layers.Layer, sequence_info: dict[str, Any], cells: int = MOST_CELLS
) -> np.ndarray:
    """Finds out which tokens each token sees, in one attention layer.

    Args:
        layer: An attention layer of `transbeam.model`.
        sequence_info: One row of masks and positions; see
            `transbeam.model.layers.sequence_info`.
        cells: Largest number of cells. In longer rows each cell has several consecutive
            tokens, and is marked if any pair of them is connected.

    Returns:
        bool `(C, C)`: rows are cells of queries, columns cells of keys. False for
        padding.

    Example:
    >>> from transbeam.model.layers.attention.full import MultiHeadAttention
    >>> layer = MultiHeadAttention(hidden_dim=4, num_heads=2, causal=True)
    >>> row = {"padding_mask": np.ones((1, 3), "int32")}
    >>> attended_pairs(layer, row).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    ids = sequence_info.get("padding_mask", sequence_info.get("document_ids"))
    real = np.asarray(ids)[0] != 0
    length = len(real)
    size = -(-length // cells)
    starts = np.arange(0, length, size)
    random = np.random.default_rng(0)
    inputs, others = random.normal(size=(2, length, layer.hidden_dim))
    changed = np.arange(length) // size == np.arange(len(starts))[:, None]  # (C, T)
    rows = np.where(changed[..., None], others, inputs)  # (C, T, D)
    # All batches have one shape, so that equal rows are rounded equally; the last one
    # is filled up with rows in which nothing is changed.
    rest = -len(rows) % _AT_ONCE
    rows = np.concatenate([rows, np.repeat(inputs[None], rest, axis=0)])
    before = _run(layer, np.repeat(inputs[None], _AT_ONCE, axis=0), sequence_info)
    limit = _CHANGED * np.abs(before).max()
    found = []
    for begin in range(0, len(rows), _AT_ONCE):
        after = _run(layer, rows[begin : begin + _AT_ONCE], sequence_info)
        differs = (np.abs(after - before) > limit).any(-1) & real  # (rows, T)
        found.append(np.logical_or.reduceat(differs, starts, axis=1))
    return np.concatenate(found)[: len(starts)].T  # (queries, keys)


def _run(
    layer: keras.layers.Layer, inputs: np.ndarray, sequence_info: dict[str, Any]
) -> np.ndarray:
    info = {
        name: ops.convert_to_tensor(np.repeat(np.asarray(row), len(inputs), axis=0))
        for name, row in sequence_info.items()
    }
    outputs = layer(ops.convert_to_tensor(inputs, "float32"), info, training=False)
    return ops.convert_to_numpy(outputs)
