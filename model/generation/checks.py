"""What is refused before anything is written."""

from typing import Any

import numpy as np
from keras import ops

from configs.errors import DataError
from configs.generation import GenerationConfig
from model.generation.interface import Steps
from model.layers.checks import check_integers, check_rank


def check_prompts(token_ids: Any, padding_mask: Any) -> None:
    """Refuses prompts that no text can begin with.

    While a function is traced the tensors have no values yet; then only what their
    shapes say is checked.

    Args:
        token_ids: int `(B, P)`.
        padding_mask: int `(B, P)`.

    Raises:
        ValueError: A shape or a dtype is wrong.
        DataError: A prompt has no token, or padding after its first one.
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
    mask = _values(padding_mask)
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
            "before the prompt only (model.generation.ragged.left_pad makes it so)"
        )


def check_room(steps: Steps, config: GenerationConfig, prompt_length: Any) -> None:
    """Refuses texts longer than the model can read.

    Raises:
        ValueError: No new token is asked for.
        DataError: The prompt and the new tokens are more than `steps.max_length`.
    """
    new = config.max_new_tokens
    if new < 1:
        raise ValueError(f"max_new_tokens={new}: expected at least 1")
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
    """Refuses seeds that do not belong to the rows.

    Raises:
        ValueError: There are none, or not one for each row.
    """
    if seeds is None:
        raise ValueError("seeds is None; sampling needs an int32 (batch,) tensor")
    seeds = ops.convert_to_tensor(seeds)
    check_integers(seeds, "seeds")
    check_rank(seeds, 1, "seeds", "(batch,)")
    known = seeds.shape[0] is not None and token_ids.shape[0] is not None
    if known and seeds.shape[0] != token_ids.shape[0]:
        raise ValueError(
            f"seeds has shape {tuple(seeds.shape)}; expected one for each of the "
            f"{token_ids.shape[0]} rows of token_ids"
        )
    return seeds


def _values(tensor: Any) -> np.ndarray | None:
    try:
        return ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError, AttributeError):
        return None  # a tensor of a function being traced
