"""Texts for a lens: batches with the positions at which predictions are read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from transbeam.model.inspect.logit_lens import POSITIONS
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

# Share of the tokens that are masked for an encoder, as in BERT's training.
_MASKED = 0.15


@dataclass(frozen=True)
class LensBatch:
    """A batch of texts.

    Attributes:
        index: The texts' numbers, int64 `(B,)`.
        inputs: The model's inputs by name.
        cells: int32 `(N,)`. Indices of the predictions that count, in the flattened
            `(B, P)` predictions.
    """

    index: np.ndarray
    inputs: Mapping[str, np.ndarray]
    cells: np.ndarray


def make_lens_batches(
    context: AnalysisContext, texts: AnalyzedTexts, tokens: int
) -> list[LensBatch]:
    """Makes batches of some texts.

    A decoder predicts at every token. For an encoder with the head of masked tokens 15%
    of each text's tokens, at least one, are replaced by the mask token and predicted;
    special tokens are not masked.

    Args:
        context: The model, and the seed of the masks.
        texts: The texts.
        tokens: Largest number of tokens in a batch; a longer text is a batch of its
            own.

    Returns:
        The batches with at least one prediction.
    """
    generator = np.random.default_rng(context.seed)
    longest = context.config.model.max_sequence_length
    batches = []
    for batch in texts.batches(context.model, tokens, longest):
        if POSITIONS in batch.inputs:
            found = mask_tokens(batch.index, batch.inputs, context.tokenizer, generator)
        else:
            inputs = batch.inputs
            real = inputs.get("decoder_padding_mask", inputs.get("padding_mask"))
            assert real is not None
            found = LensBatch(batch.index, inputs, _find_cells(real))
        if len(found.cells):
            batches.append(found)
    return batches


def mask_tokens(
    index: np.ndarray,
    inputs: Mapping[str, np.ndarray],
    tokenizer: Tokenizer,
    generator: np.random.Generator,
) -> LensBatch:
    """Masks tokens of each text at random.

    Args:
        index: The texts' numbers.
        inputs: The inputs of an encoder with the head of masked tokens.
        tokenizer: Has a mask token.
        generator: Draws the positions.
    """
    token_ids, real = inputs["token_ids"], inputs["padding_mask"]
    ordinary = np.isin(token_ids, tokenizer.ordinary_ids) & (real != 0)
    most = max(1, round(_MASKED * token_ids.shape[1]))
    # Ordinary tokens come first, in random order.
    order = np.argsort(generator.random(token_ids.shape) + ~ordinary, axis=1)
    positions = np.sort(order[:, :most], axis=1)
    numbers = np.maximum(1, np.round(_MASKED * ordinary.sum(axis=1))).astype(int)
    ranks = np.argsort(order, axis=1)
    masked = ordinary & (ranks < numbers[:, None])
    assert tokenizer.special.mask is not None
    changed = {
        **inputs,
        "token_ids": np.where(masked, tokenizer.special.mask, token_ids),
        POSITIONS: positions.astype("int32"),
    }
    changed["token_ids"] = changed["token_ids"].astype("int32")
    cells = _find_cells(np.take_along_axis(masked, positions, axis=1))
    return LensBatch(index, changed, cells)


def _find_cells(counts: np.ndarray) -> np.ndarray:
    return np.flatnonzero(counts).astype("int32")
