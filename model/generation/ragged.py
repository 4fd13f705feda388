"""Pads prompts of different lengths to a batch, and removes padding from results."""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.base.errors import DataError


def left_pad(
    prompts: Sequence[Sequence[int]], *, padding: int = 0, multiple: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Builds a batch of left-padded prompts.

    All prompts end in the same column, after which new tokens are added.

    Args:
        prompts: Tokens of each prompt, at least one per prompt.
        padding: The padding token.
        multiple: The length of the prompts is rounded up to a multiple of this number.
            A function is compiled again for each length, so keep the number of lengths
            small.

    Returns:
        `token_ids` and `padding_mask`, both int32 `(B, P)`; the mask is 1 for tokens.

    Raises:
        DataError: There are no prompts, or a prompt has no token.

    Example:
    >>> token_ids, padding_mask = left_pad([[5], [6, 7]])
    >>> token_ids, padding_mask
    (array([[0, 5],
           [6, 7]], dtype=int32), array([[0, 1],
           [1, 1]], dtype=int32))
    """
    if not prompts:
        raise DataError("prompts is empty; expected at least one prompt")
    lengths = [len(prompt) for prompt in prompts]
    if not min(lengths):
        raise DataError(
            f"prompts[{lengths.index(0)}] has no token; a text begins with at least "
            "one, such as the tokenizer's begin-of-text token"
        )
    longest = -(-max(lengths) // multiple) * multiple
    token_ids = np.full((len(prompts), longest), padding, "int32")
    padding_mask = np.zeros((len(prompts), longest), "int32")
    for row, prompt in enumerate(prompts):
        token_ids[row, longest - len(prompt) :] = prompt
        padding_mask[row, longest - len(prompt) :] = 1
    return token_ids, padding_mask


def unpad(token_ids: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """Removes the padding from the rows of a batch.

    Args:
        token_ids: int `(B, N)`.
        lengths: int `(B,)`.

    Example:
    >>> unpad(np.array([[5, 0], [6, 7]]), np.array([1, 2]))
    [[5], [6, 7]]
    """
    return [
        row[:length].tolist()
        for row, length in zip(np.asarray(token_ids), lengths, strict=True)
    ]
