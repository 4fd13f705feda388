"""Tokenizes pre-split words."""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.token_arrays import split_rows
from transbeam.pipeline.records.token_rows import TokenRows, tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def tokenize_words(
    sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, run: RunConfig
) -> TokenRows:
    """Tokenizes the words of sentences, one row per word.

    Each word but the first of a sentence gets the tokenizer's `word_prefix`, so that it
    has the same tokens as inside the sentence. A word without any token, such as a
    control character, becomes the unknown token: every row has at least one token.

    Raises:
        ConfigError: A word has no token and the tokenizer has no unknown token.
    """
    before = tokenizer.word_prefix.encode("utf-8")
    texts = [
        before * (place > 0) + word.encode("utf-8")
        for sentence in sentences
        for place, word in enumerate(sentence)
    ]
    rows = tokenize_texts(texts, tokenizer)
    without = np.flatnonzero(rows.lengths == 0)
    if not len(without):
        return rows
    unknown = tokenizer.special.unknown
    if unknown is None:
        raise ConfigError(
            f"objective.kind={run.objective.kind}: {texts[without[0]]!r} has no piece, "
            f"and the tokenizer of tokenizer.kind={run.tokenizer.kind} has none for "
            "unknown words. Choose special pieces with one (tokenizer.kind=wordpiece "
            "has it)"
        )
    ids = np.insert(rows.ids, rows.row_splits[:-1][without], unknown)
    return split_rows(ids, np.maximum(rows.lengths, 1))
