"""How many bytes of a text each token stands for, where that can be told.

Bits per byte compare models of different vocabularies, if the model tells the very text
and the bytes are those of the tokens it was asked for. A token of byte-level BPE is
some bytes, and one of SentencePiece some characters with a sign for a space; so their
lengths add up to the text's. WordPiece forgets the spaces: what its tokens tell is
another text, and shorter. Whether it is so is not believed but tried, on every text.
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
from transbeam.trainer.objectives.targets import asks_of


def added_bytes(
    texts: Sequence[bytes], tokenizer: Tokenizer, table: np.ndarray
) -> np.ndarray:
    """int64 (N,): bytes that the tokens of each text have beyond the text's own.

    A space put before the text is one. -1 where the tokens do not tell the very text.
    """
    added = [np.zeros(0, np.int64)]
    for block in blocks(texts):
        tokens = tokenizer.tokenize(block)
        told = tokenizer.detokenize(tokens).numpy().tolist()
        ids, splits = tokens.flat_values.numpy(), tokens.row_splits.numpy()
        ends = np.concatenate([[0], np.cumsum(table[ids])])[splits]
        found = np.diff(ends) - np.array([len(text) for text in block])
        is_same = [
            a.lstrip(b" ") == b.lstrip(b" ") for a, b in zip(told, block, strict=True)
        ]
        added.append(np.where(is_same & (found >= 0), found, -1))
    return np.concatenate(added)


def bits_per_byte(
    objective: Objective, tokenizer: Tokenizer, texts: Sequence[bytes]
) -> Scorer | None:
    """What a byte of text costs a language model.

    The bytes are those of the tokens that are asked for: all of a text but, where no
    piece stands before texts, its first token, which costs nothing either. The piece
    after a text costs nats and has no bytes. The space that SentencePiece puts before a
    text is none of it: where the first token is asked for, it is taken off again.

    Args:
        objective: The run's.
        tokenizer: The run's.
        texts: Of the documents that are evaluated, UTF-8.

    Returns:
        None where the objective is another, or where some text is not told exactly.
    """
    table = piece_bytes(tokenizer)
    if table is None or not isinstance(objective, CausalConfig | PrefixConfig):
        return None
    added = added_bytes(texts, tokenizer, table)
    begin, end = tokenizer.special.begin, tokenizer.special.end
    first_is_asked = begin is not None and begin != end
    # Of texts with and without a space before them the tokens are the same.
    is_uneven = added.size > 0 and added.min() != added.max()
    if added.min(initial=0) < 0 or (first_is_asked and is_uneven):
        return None
    before_text = int(added.max(initial=0)) if first_is_asked else 0
    (ask,) = asks_of(objective)
    metric = BitsPerByte()

    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        bytes_of = table[batch[ask.targets]]
        if before_text:
            bytes_of -= before_text * (batch["token_ids"] == begin)
        asked = bytes_of * (batch[str(ask.weights)] > 0)
        return metric.statistics(answers[ask.output]["cost"], asked.sum(axis=1))

    return Scorer(metric, statistics)
