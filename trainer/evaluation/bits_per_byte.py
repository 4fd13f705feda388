"""Bits per byte of a language model, if its tokens reproduce the texts exactly.

Bits per byte are comparable between models with different vocabularies, if the tokens
encode the exact text and only the bytes of target tokens are counted. A token of
byte-level BPE is a sequence of bytes, and a token of SentencePiece a sequence of
characters in which a special character represents a space; so the lengths of the tokens
add up to the length of the text. WordPiece loses spaces: its tokens decode to another,
shorter text. The property that the tokens decode to the exact text is checked on every
text.
"""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.pipeline.records.token_rows import blocks
from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.metrics.language_modeling import BitsPerByte
from transbeam.trainer.objectives.objective_metrics import Answers, Batch, Scorer
from transbeam.trainer.objectives.targets import make_targets


def added_bytes(
    texts: Sequence[bytes], tokenizer: Tokenizer, table: np.ndarray
) -> np.ndarray:
    """Number of bytes by which the tokens of each text exceed the text: int64 (N,).

    For example 1 for a space that the tokenizer prepends; -1 if the tokens do not
    decode to the exact text.
    """
    added = [np.zeros(0, np.int64)]
    for block in blocks(texts):
        tokens = tokenizer.tokenize(block)
        decoded = tokenizer.detokenize(tokens).numpy().tolist()
        ids, splits = tokens.flat_values.numpy(), tokens.row_splits.numpy()
        ends = np.concatenate([[0], np.cumsum(table[ids])])[splits]
        found = np.diff(ends) - np.array([len(text) for text in block])
        pairs = zip(decoded, block, strict=True)
        is_same = [a.lstrip(b" ") == b.lstrip(b" ") for a, b in pairs]
        added.append(np.where(is_same & (found >= 0), found, -1))
    return np.concatenate(added)


def bits_per_byte(
    objective: Objective, tokenizer: Tokenizer, texts: Sequence[bytes]
) -> Scorer | None:
    """Builds the bits-per-byte metric of a language model.

    The bytes of target tokens are counted: of all tokens of a text or, without a begin
    token, of all but the first, which is not predicted. The end token contributes its
    loss but no bytes. The space that SentencePiece puts before a text is not part of
    the text: if the first token is a target, the space is subtracted.

    Args:
        objective: The run's objective.
        tokenizer: The run's tokenizer.
        texts: The evaluated documents, UTF-8.

    Returns:
        The metric; None for objectives other than `causal` and `prefix`, or if the
        tokens of some text do not decode to exactly that text.
    """
    table = piece_bytes(tokenizer)
    if table is None or not isinstance(objective, CausalConfig | PrefixConfig):
        return None
    added = added_bytes(texts, tokenizer, table)
    begin, end = tokenizer.special.begin, tokenizer.special.end
    first_is_target = begin is not None and begin != end
    # A text with and without a leading space has the same tokens, so the number of
    # added bytes may differ between texts.
    is_uneven = added.size > 0 and added.min() != added.max()
    if added.min(initial=0) < 0 or (first_is_target and is_uneven):
        return None
    before_text = int(added.max(initial=0)) if first_is_target else 0
    (target,) = make_targets(objective)
    metric = BitsPerByte()

    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        bytes_of = table[batch[target.targets]]
        if before_text:
            bytes_of -= before_text * (batch["token_ids"] == begin)
        counted = bytes_of * (batch[str(target.weights)] > 0)
        return metric.statistics(answers[target.output]["cost"], counted.sum(axis=1))

    return Scorer(metric, statistics)
