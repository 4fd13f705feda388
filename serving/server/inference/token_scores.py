"""Inputs and outputs of the signature `logits_ids`, for scores of given tokens."""

import numpy as np

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import invalid

SIGNATURE = "logits_ids"
# Scores of all tokens at all positions, as float32.
_MOST_BYTES = 2**28
DECODER = frozenset({"token_ids", "padding_mask"})
_PREFIXED = DECODER | {"prefix_mask"}
_ENCODED = frozenset({"encoder_token_ids", "decoder_token_ids"})


def scored_inputs(
    names: frozenset[str], prompt: np.ndarray, new: np.ndarray, first: int
) -> tuple[Arrays, int]:
    """Makes the inputs of `logits_ids` for a prompt and the tokens after it.

    Args:
        names: Names of the signature's inputs.
        prompt: int32 (P,).
        new: int32 (N,), the generated tokens.
        first: The start token of an encoder-decoder's decoder.

    Returns:
        The inputs, and the position whose scores are those of the first new token.

    Raises:
        StatusError: The signature has other inputs.

    Example:
    >>> names = frozenset({"token_ids", "padding_mask"})
    >>> inputs, start = scored_inputs(names, np.int32([5, 6]), np.int32([7, 8]), 0)
    >>> inputs["token_ids"].tolist(), start
    ([[5, 6, 7]], 1)
    """
    # The last token has nothing after it.
    if names <= _PREFIXED:
        ids = np.concatenate([prompt, new[:-1]])[np.newaxis]
        found = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        if "prefix_mask" in names:
            is_prompt = np.arange(ids.shape[1]) < len(prompt)
            found["prefix_mask"] = is_prompt[np.newaxis].astype(np.int32)
        return found, len(prompt) - 1
    if names >= _ENCODED:
        encoder = prompt[np.newaxis]
        decoder = np.concatenate([np.array([first], np.int32), new[:-1]])[np.newaxis]
        return {
            "encoder_token_ids": encoder,
            "encoder_padding_mask": np.ones_like(encoder),
            "decoder_token_ids": decoder,
            "decoder_padding_mask": np.ones_like(decoder),
        }, 0
    raise invalid(
        f"the model gives no scores of tokens: its signature {SIGNATURE} has the "
        f"inputs {', '.join(sorted(names))}"
    )


def check_scores_size(inputs: Arrays, vocabulary_size: int) -> None:
    """Rejects inputs of `logits_ids` whose outputs would take too much memory.

    Args:
        inputs: Inputs of the signature, of one text.
        vocabulary_size: The number of scores at each position.

    Raises:
        StatusError: The text has too many tokens.
    """
    positions = max(ids.shape[1] for ids in inputs.values())
    if positions * vocabulary_size * 4 > _MOST_BYTES:
        raise invalid(
            f"the text has {positions:,} tokens; scores are computed for up to "
            f"{_MOST_BYTES // (4 * vocabulary_size):,} tokens of this model"
        )


def best_tokens(scores: np.ndarray, count: int) -> np.ndarray:
    """Returns the ids of the tokens with the highest scores, the best first.

    Of equal scores the lower id comes first.

    Args:
        scores: float (V,).
        count: The number of tokens; at most V are returned.

    Example:
    >>> best_tokens(np.array([0.1, 0.5, 0.2, 0.2]), 3).tolist()
    [1, 2, 3]
    """
    count = min(count, len(scores))
    if not count:
        return np.zeros(0, np.int64)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]
