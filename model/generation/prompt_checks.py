"""Checks of a prompt before generation begins."""

from typing import Any

import numpy as np
from keras import ops

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.base.tensor_checks import (
    check_integers,
    check_rank,
    get_dtype,
    known_values,
)
from transbeam.model.generation.decode_functions import DecodeFunctions


def check_prompts(token_ids: Any, padding_mask: Any) -> None:
    """Checks prompts and their mask.

    While a function is traced the tensors have no values; then only shapes and dtypes
    are checked.

    Args:
        token_ids: int `(B, P)`.
        padding_mask: int `(B, P)`.

    Raises:
        ValueError: A shape or a dtype is wrong.
        DataError: A prompt has no token, or padding after its first token.
    """
    check_rank(token_ids, 2, "token_ids", "(batch, length)")
    check_integers(token_ids, "token_ids")
    if token_ids.shape[1] == 0:
        raise DataError(
            f"token_ids has shape {tuple(token_ids.shape)}: prompts without a token; "
            "expected at least one, such as the begin-of-text token"
        )
    if tuple(padding_mask.shape) != tuple(token_ids.shape):
        raise ValueError(
            f"padding_mask has shape {tuple(padding_mask.shape)}; expected that of "
            f"token_ids, {tuple(token_ids.shape)}"
        )
    mask = known_values(padding_mask)
    if mask is not None:
        _check_mask(mask != 0)


def _check_mask(real: np.ndarray) -> None:
    empty = np.flatnonzero(~real.any(axis=1))
    if empty.size:
        raise DataError(
            f"padding_mask: row {empty[0]} is all padding; expected at least one token "
            "in each prompt"
        )
    ragged = np.flatnonzero((np.diff(real.astype(int), axis=1) < 0).any(axis=1))
    if ragged.size:
        raise DataError(
            f"padding_mask: row {ragged[0]} has padding after a token; expected it "
            "before the prompt only (transbeam.model.generation.ragged.left_pad makes "
            "it so)"
        )


def check_length(
    steps: DecodeFunctions, config: GenerationConfig, prompt_length: Any
) -> None:
    """Checks that prompt and new tokens fit the model's maximum length.

    Raises:
        DataError: The prompt and the new tokens together exceed `steps.max_length`.
    """
    new = config.max_new_tokens
    longest = steps.max_length
    if longest is None or not isinstance(prompt_length, int):
        return
    if prompt_length + new > longest:
        raise DataError(
            f"token_ids: prompts of {prompt_length} tokens (with their padding) and "
            f"max_new_tokens={new} make {prompt_length + new}, but the model reads "
            f"{longest}; expected shorter prompts, or at most "
            f"{max(longest - prompt_length, 0)} new tokens"
        )


def check_seeds(seeds: Any, token_ids: Any) -> Any:
    """Checks that there is a seed for each row, and that it fits 32 bits.

    Returns:
        The seeds, as a tensor with a 32-bit dtype.

    Raises:
        ValueError: The seeds are missing, or are not one per row; or a seed does not
            fit 32 bits. In a graph, where values are not known, all 64-bit seeds are
            rejected.
    """
    if seeds is None:
        raise ValueError("seeds is None; sampling needs an int32 (batch,) tensor")
    if not hasattr(seeds, "dtype"):
        seeds = np.asarray(seeds)  # 64 bits, which JAX would truncate
    check_integers(seeds, "seeds")
    check_rank(seeds, 1, "seeds", "(batch,)")
    seeds = _narrowed(seeds)
    known = seeds.shape[0] is not None and token_ids.shape[0] is not None
    if known and seeds.shape[0] != token_ids.shape[0]:
        raise ValueError(
            f"seeds has shape {tuple(seeds.shape)}; expected one for each of the "
            f"{token_ids.shape[0]} rows of token_ids"
        )
    return seeds


def _narrowed(seeds: Any) -> Any:
    """Converts seeds to 32 bits, signed or unsigned: only the bits matter."""
    values = known_values(seeds)
    expected = "expected whole numbers of 32 bits, such as int32"
    if values is not None and values.size:
        low, high = values.min(), values.max()
        if low < -(2**31) or high >= 2**32 or (low < 0 and high >= 2**31):
            raise ValueError(
                f"seeds, of shape {tuple(values.shape)}, go from {low} to {high}; "
                f"{expected}"
            )
        return ops.convert_to_tensor(values, "uint32" if high >= 2**31 else "int32")
    if get_dtype(seeds) in ("int64", "uint64"):
        raise ValueError(
            f"seeds has dtype {get_dtype(seeds)} and shape {tuple(seeds.shape)}; "
            f"{expected}"
        )
    return ops.convert_to_tensor(seeds)
