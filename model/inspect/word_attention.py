"""Attention between words, from attention between their tokens.

A word may be split into several tokens, and a token may be part of two words, as of
`can` and `not` where `cannot` is one token. Membership is given by a matrix and comes
from character offsets, so that it is the same for all tokenizers.

Shapes: `B` batch, `H` heads, `T` tokens, `W` words.

References:
    - [Clark et al., 2019](https://arxiv.org/abs/1906.04341), section 4.1
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from transbeam.model.inspect.head_observation import (
    layers_with_probabilities,
    observe_heads,
)
from transbeam.model.inspect.head_weights import HeadWeights
from transbeam.model.layers.attention.attended_keys import AttendedKeys
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention

# In place of the index of a word, where there is none.
NO_WORD = -1


class MostAttended(NamedTuple):
    """For each word, another word, by its index, or `NO_WORD`: int32 `(B, H, W)`.

    Attributes:
        to: The word to which it attends most.
        by: The word that attends most to it.
    """

    to: Any
    by: Any


def word_membership(
    token_offsets: Sequence[tuple[int, int]], word_offsets: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Returns the words that each token is a part of, bool `(T, W)`.

    A token is a part of a word if they have a character in common.

    Args:
        token_offsets: Start and end of each token in the text, in characters.
        word_offsets: Start and end of each word.

    Example:
    >>> word_membership([(0, 0), (0, 2), (2, 4), (4, 5)], [(0, 4), (4, 5)]).astype(int)
    array([[0, 0],
           [1, 0],
           [1, 0],
           [0, 1]])
    """
    tokens = np.array(token_offsets, np.int64).reshape(-1, 2)
    words = np.array(word_offsets, np.int64).reshape(-1, 2)
    starts = np.maximum(tokens[:, None, 0], words[None, :, 0])
    ends = np.minimum(tokens[:, None, 1], words[None, :, 1])
    return starts < ends


def merge_words(probabilities: Any, membership: Any) -> Any:
    """Merges attention between tokens to attention between words.

    The weight *to* a word is the sum over its tokens, the weight *from* a word is the
    mean over its tokens. So a word that attends to words alone has weights that sum to
    one. Tokens of no word, such as `[CLS]` and `[SEP]`, are dropped.

    Args:
        probabilities: `(B, H, T, T)`, a row per query.
        membership: `(B, T, W)`, 1 where a token is a part of a word, else 0.

    Returns:
        float32 `(B, H, W, W)`; zeros for a word without tokens.

    Example:
    >>> rows = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.2, 0.4, 0.4]])
    >>> membership = np.array([[1, 0], [0, 1], [0, 1]])
    >>> merged = merge_words(rows[None, None], membership[None])
    >>> ops.convert_to_numpy(merged)[0, 0].round(3)
    array([[0.2, 0.8],
           [0.4, 0.6]], dtype=float32)
    """
    member = ops.cast(membership, "float32")
    columns = ops.matmul(ops.cast(probabilities, "float32"), member[:, None])
    return _average_rows(columns, member)


def read_word_attention(
    model: keras.Model, inputs: Mapping[str, Any], membership: Any
) -> dict[str, Any]:
    """Computes attention between words in the self-attention layers of a model.

    The weights of a layer are merged as soon as they are computed, so that those of one
    layer exist at a time. The function may be called eagerly, or traced.

    Args:
        model: A model of `transbeam.model`, for rows of one text each.
        inputs: Its inputs.
        membership: `(B, T, W)`, as in `merge_words`; in an encoder-decoder of the
            encoder's tokens.

    Returns:
        Attention between words by the path of the layer, such as
        `encoder_layer_0/self_attention`: float32 `(B, H, W, W)`. Layers are left out
        whose weights are not of tokens (low-rank and kernel attention), and an
        encoder-decoder's decoder.

    Raises:
        ConfigError: See `observe_heads`.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ones = ops.ones((1, 3), dtype="int32")
    >>> membership = np.array([[[1, 0], [0, 1], [0, 1]]])
    >>> found = read_word_attention(
    ...     encoder, {"token_ids": ones, "padding_mask": ones}, membership
    ... )
    >>> {path: tuple(words.shape) for path, words in found.items()}
    {'encoder_layer_0/self_attention': (1, 4, 2, 2)}
    """
    member = ops.cast(membership, "float32")
    columns: dict[str, Any] = {}

    def merge(layer: Attention, keys: AttendedKeys, weights: HeadWeights) -> None:
        if layer.path in layers:
            merged = ops.matmul(weights.values, weights.at_keys(member))
            merged = weights.sum_by_query(merged)
            columns[layer.path] = columns.get(layer.path, 0.0) + merged

    layers = {layer.path for layer in word_layers(model)}
    with observe_heads(model, merge):
        model(inputs, training=False)
    return {path: _average_rows(merged, member) for path, merged in columns.items()}


def word_layers(model: keras.Model) -> list[Attention]:
    """Returns the layers of `read_word_attention`, in the order of the model."""
    is_pair = "encoder_token_ids" in model.input
    return [
        layer
        for layer in layers_with_probabilities(model)
        if not isinstance(layer, (CrossAttention, LowRankAttention))
        and not (is_pair and layer.path.startswith("decoder"))
    ]


def _average_rows(columns: Any, member: Any) -> Any:
    """Averages the rows of each word's tokens: `(B, H, T, W)` to `(B, H, W, W)`."""
    tokens = ops.maximum(ops.sum(member, axis=1, keepdims=True), 1.0)  # (B, 1, W)
    return ops.matmul(ops.transpose(member / tokens, (0, 2, 1))[:, None], columns)


def find_most_attended(words: Any, membership: Any) -> MostAttended:
    """Finds the strongest link of each word to, and from, another word.

    Words with a token in common are not compared: between them a weight to the other
    word cannot be told from a weight to the word itself.

    Args:
        words: `(B, H, W, W)`, the result of `merge_words`.
        membership: `(B, T, W)`, as in `merge_words`.

    Returns:
        The words; `NO_WORD` for a word without tokens, and where all weights are zero,
        such as those of the first word of a causal model. Of equal weights the first.

    Example:
    >>> words = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.7, 0.0, 0.3]])
    >>> most = find_most_attended(words[None, None], np.eye(3)[None])
    >>> [ops.convert_to_numpy(found)[0, 0].tolist() for found in most]
    [[2, 2, 0], [2, 0, 0]]
    """
    shares = share_tokens(membership)[:, None]
    others = ops.where(shares, 0.0, ops.cast(words, "float32"))
    return MostAttended(_argmax(others), _argmax(ops.swapaxes(others, -1, -2)))


def share_tokens(membership: Any) -> Any:
    """Returns the pairs of words that have a token in common, bool `(B, W, W)`.

    Args:
        membership: `(B, T, W)`, as in `merge_words`.
    """
    member = ops.cast(membership, "float32")
    return ops.matmul(ops.transpose(member, (0, 2, 1)), member) > 0


def _argmax(weights: Any) -> Any:
    found = ops.cast(ops.argmax(weights, axis=-1), "int32")
    return ops.where(ops.max(weights, axis=-1) > 0, found, NO_WORD)
