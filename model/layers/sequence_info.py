"""The masks, positions and document ids of a sequence's tokens: `sequence_info`.

Attention depends on which tokens are padding and which belong to the same document.
Each kind of attention computes its own mask from this information. So the layers of a
stack do not receive a `T x T` mask, but these few tensors, int32 `(B, T)`:

- `padding_mask`: 1 for a real token, 0 for padding, in rows of one document; or
  `document_ids`: 1, 1, 2, 2, 2, 0 in rows of several contiguous documents; 0 is
  padding. Exactly one of `padding_mask` and `document_ids` is required.
- `position_ids`: from 0 in each document. Required with `document_ids`; with
  `padding_mask`, only if the text does not begin in the first column of its row.
- `prefix_mask`: 1 for the tokens of a bidirectional prefix, in a decoder.
- `global_mask`: 1 for a token that may be global, in attention with global tokens; left
  out: all may.
- `bias_table`: float32 `(num_buckets, H)`, T5's biases, one table for a whole stack.
"""

from keras import ops

from transbeam.model.base.tensor_checks import check_rank, check_rows

KEYS = ("padding_mask", "document_ids", "position_ids", "prefix_mask", "global_mask")
KEYS += ("bias_table",)


def packed(sequence_info) -> bool:
    """Checks if rows may hold several documents.

    Example:
    >>> packed({"padding_mask": ops.ones((1, 3))})
    False
    """
    return "document_ids" in sequence_info


def real_tokens(sequence_info):
    """Marks tokens that are not padding: bool `(B, T)`.

    Example:
    >>> real = real_tokens({"document_ids": ops.array([[1, 2, 0]])})
    >>> ops.convert_to_numpy(real)
    array([[ True,  True, False]])
    """
    ids = (
        sequence_info["document_ids"]
        if packed(sequence_info)
        else sequence_info["padding_mask"]
    )
    return ops.not_equal(ids, 0)


def check_sequence_info(sequence_info, inputs, name: str) -> None:
    """Checks that `sequence_info` is consistent and fits the inputs.

    Args:
        sequence_info: The sequence info; see `transbeam.model.layers.sequence_info`.
        inputs: The tokens' vectors, `(B, T, ...)`.
        name: The layer's name, for error messages.

    Raises:
        ValueError: `sequence_info` has an unknown key, neither or both of
            `padding_mask` and `document_ids`, or `document_ids` without `position_ids`;
            or a tensor does not have one integer for each token.

    Example:
    >>> sequence_info = {"document_ids": ops.ones((1, 3))}
    >>> check_sequence_info(sequence_info, ops.ones((1, 3, 8)), "block")
    Traceback (most recent call last):
    ValueError: block: sequence_info has document_ids without position_ids; ...
    """
    unknown = sorted(set(sequence_info) - set(KEYS))
    if unknown:
        raise ValueError(
            f"{name}: sequence_info has {unknown}; known here: {list(KEYS)}"
        )
    if packed(sequence_info) == ("padding_mask" in sequence_info):
        raise ValueError(
            f"{name}: sequence_info has {sorted(sequence_info)}; expected exactly one "
            "of padding_mask (one document a row) and document_ids (packed rows)"
        )
    if packed(sequence_info) and "position_ids" not in sequence_info:
        raise ValueError(
            f"{name}: sequence_info has document_ids without position_ids; in a packed "
            "row they start at 0 in every document"
        )
    for key, value in sequence_info.items():
        if key == "bias_table":
            check_rank(value, 2, f"{name}: {key}", "(num_buckets, heads)")
        else:
            check_rows(value, inputs, f"{name}: {key}")
