"""Attention masks: true where a query may attend to a key.

Masks stay boolean until the softmax, where they become additive biases.
"""

from keras import ops

from transbeam.model.kernels.dispatch import is_in_int8
from transbeam.model.layers.sequence_info import packed

# Added to masked scores. A trained model's scores may differ by a hundred and more, so
# that with -60 a masked key could still have the highest score of its row: it must be
# far lower, and above -65,504, where float16 overflows. It is added and does not
# replace the score: the softmax is invariant to a common shift of a row, and so must
# be the mask.
FORBIDDEN = -1e4


# If scores are int8, that would stretch their range until all real ones fall into one
# quantization step. This leaves small enough steps (agreement of labels on SST-2:
# 95.6% with the one above, 99.8% with anything from 12 to 60), and a model whose scores
# differ by more fails an export's parity check.
FORBIDDEN_IN_INT8 = -60.0


def attention_mask(sequence_info, *, causal: bool = False, start=0, size=None):
    """Computes the attention mask of a row's queries.

    A decoder with a cache computes the mask for the `size` queries from `start` on; the
    keys are always those of the whole row.

    Args:
        sequence_info: See `transbeam.model.layers.sequence_info`.
        causal: If true, queries do not attend to later keys, except within a prefix.
        start: int or scalar tensor, the first query's index in the row.
        size: int or scalar tensor, the number of queries; None for the whole row.

    Returns:
        bool `(B, 1, S)` if all queries of a row have the same mask, else
        `(B, size, S)`.

    Example:
    >>> mask = attention_mask({"padding_mask": ops.array([[1, 1, 0]])}, causal=True)
    >>> ops.convert_to_numpy(mask)[0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 0]])
    """
    ids = (
        sequence_info["document_ids"]
        if packed(sequence_info)
        else sequence_info["padding_mask"]
    )
    batch, length = ops.shape(ids)
    size = length if size is None else size
    mask = ops.expand_dims(ops.not_equal(ids, 0), axis=1)  # (B, 1, S)
    if packed(sequence_info):
        queries = ops.slice(ids, (0, start), (batch, size))
        mask = ops.logical_and(mask, same_document(queries, ids))  # (B, size, S)
    if causal:
        mask = ops.logical_and(mask, _before(sequence_info, start, size, length))
    return mask


def same_document(query_ids, key_ids):
    """Marks pairs of tokens of the same document.

    Args:
        query_ids: int `(B, Q)`.
        key_ids: int `(B, S)`.

    Returns:
        bool `(B, Q, S)`.
    """
    return ops.equal(ops.expand_dims(query_ids, axis=2), ops.expand_dims(key_ids, 1))


def _before(sequence_info, start, size, length):
    """Marks keys not after the query, and those of the prefix: `(B|1, size, S)`."""
    rows = start + ops.arange(size, dtype="int32")
    columns = ops.arange(length, dtype="int32")
    before = ops.expand_dims(rows, 1) >= ops.expand_dims(columns, 0)  # (size, S)
    before = ops.expand_dims(before, 0)  # (1, size, S)
    if "prefix_mask" not in sequence_info:
        return before
    prefix = ops.expand_dims(
        ops.not_equal(sequence_info["prefix_mask"], 0), 1
    )  # (B, 1, S)
    return ops.logical_or(before, prefix)


def softmax(scores):
    """Softmax over the keys, without Keras's warning for a single key.

    Example:
    >>> ops.convert_to_numpy(softmax(ops.array([[3.0]])))
    array([[1.]], dtype=float32)
    """
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores)


def mask_bias(mask):
    """Converts a mask to an additive bias for the scores of all heads.

    If all keys of a query are masked, all of its scores get the same bias: its softmax
    stays finite, and its output has no meaning.

    Args:
        mask: bool `(B, 1, S)` or `(B, Q, S)`.

    Returns:
        float32 `(B, 1, 1, S)` or `(B, 1, Q, S)`: 0 where the mask is true.

    Example:
    >>> ops.convert_to_numpy(mask_bias(ops.array([[[True, False]]]))).tolist()
    [[[[0.0, -10000.0]]]]
    """
    return ops.expand_dims(ops.where(mask, 0.0, masked_score()), axis=1)


def masked_score() -> float:
    """Returns the constant subtracted from masked scores; it differs in int8 models."""
    return FORBIDDEN_IN_INT8 if is_in_int8() else FORBIDDEN
