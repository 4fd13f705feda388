"""Rows of tokens of one text, as a model reads them."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def without_padding(padded: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Cuts the inputs of a model to the lengths of their texts.

    Args:
        padded: int32 `(1, T)` each, such as `token_ids`, with the padding mask of each
            side: `padding_mask`, or `encoder_padding_mask` and `decoder_padding_mask`.

    Returns:
        The inputs without padding, `(1, T')`.

    Example:
    >>> ids, mask = np.array([[7, 8, 0]]), np.array([[1, 1, 0]])
    >>> without_padding({"token_ids": ids, "padding_mask": mask})["token_ids"]
    array([[7, 8]])
    """
    inputs = {name: np.asarray(values) for name, values in padded.items()}
    found = {}
    for name, values in inputs.items():
        side = next((s for s in ("encoder_", "decoder_") if name.startswith(s)), "")
        found[name] = values[:, : inputs[f"{side}padding_mask"].sum()]
    return found
