"""Occurrences of pieces and words in texts, and their hidden states in every layer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer, encodable
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.heads.token_classes import is_punctuation
from transbeam.trainer.analysis.syntax.word_texts import WordTexts
from transbeam.trainer.analysis.vectors.layer_states import collect_states

_AROUND = 5  # tokens


class Occurrence(NamedTuple):
    """A stretch of tokens, from `start` to `end` (excluded).

    Attributes:
        text: The text's number.
        start: The position of the first token.
        end: The position after the last.
    """

    text: int
    start: int
    end: int


class FlatTokens(NamedTuple):
    """The tokens of all texts, one after the other.

    Attributes:
        ids: int32 (N,).
        texts: int64 (N,). The number of each token's text.
        positions: int64 (N,). The position of each token in its text.
    """

    ids: np.ndarray
    texts: np.ndarray
    positions: np.ndarray

    def at(self, cells: np.ndarray, length: int = 1) -> list[Occurrence]:
        """Returns the occurrences that begin at some tokens."""
        texts, starts = self.texts[cells].tolist(), self.positions[cells].tolist()
        return [
            Occurrence(text, start, start + length)
            for text, start in zip(texts, starts, strict=True)
        ]


def flatten_texts(context: AnalysisContext) -> FlatTokens:
    """Joins the tokens of all texts; in an encoder-decoder those of the encoder."""
    rows = token_rows(context)
    lengths = np.array([len(row) for row in rows])
    starts = np.cumsum(lengths) - lengths
    texts = np.repeat(np.arange(len(rows)), lengths)
    return FlatTokens(
        np.concatenate(rows), texts, np.arange(len(texts)) - starts[texts]
    )


def find_word(tokens: FlatTokens, tokenizer: Tokenizer, word: str) -> list[Occurrence]:
    """Finds the occurrences of a word; of a text's start only if it looks the same.

    Found are the pieces of the word as within a sentence, if the next piece does not
    go on with it.

    Args:
        tokens: The tokens of all texts.
        tokenizer: The tokenizer.
        word: The word.
    """
    row = tokenizer.tokenize(encodable([tokenizer.word_prefix + word]))
    pieces = row.flat_values.numpy()
    size, number = len(pieces), len(tokens.ids)
    if not 0 < size <= number or (pieces == tokenizer.special.unknown).any():
        return []
    windows = np.lib.stride_tricks.sliding_window_view(tokens.ids, size)
    begins = np.flatnonzero((windows == pieces).all(axis=1))
    begins = begins[tokens.texts[begins] == tokens.texts[begins + size - 1]]
    after = np.minimum(begins + size, number - 1)
    ends_text = (begins + size == number) | (
        tokens.texts[after] != tokens.texts[begins]
    )
    ends_word = tokenizer.starts_word[tokens.ids[after]] | np.array(
        [is_punctuation(tokenizer.pieces[index]) for index in tokens.ids[after]], bool
    )
    return tokens.at(begins[ends_text | ends_word], size)


def collect_occurrences(
    context: AnalysisContext, occurrences: Sequence[Occurrence], label: str
) -> tuple[tuple[str, ...], np.ndarray]:
    """Computes the vectors of occurrences: means over their tokens.

    Only texts with an occurrence are read.

    Args:
        context: The model and the texts.
        occurrences: The occurrences, `N`.
        label: What the progress bar says.

    Returns:
        The names of the layers; and float32 (L, N, D), in the order of `occurrences`.
    """
    texts = np.array([occurrence.text for occurrence in occurrences])
    order = np.argsort(texts, kind="stable")
    numbers, firsts = np.unique(texts[order], return_index=True)
    rows, memberships = token_rows(context), []
    for number, members in zip(numbers, np.split(order, firsts[1:]), strict=True):
        membership = np.zeros((len(rows[number]), len(members)), bool)
        for column, member in enumerate(members):
            membership[occurrences[member].start : occurrences[member].end, column] = 1
        memberships.append(membership)
    chosen = tuple(context.texts.rows[number] for number in numbers)
    words = WordTexts(
        AnalyzedTexts(context.texts.name, chosen),
        tuple(memberships),
        tuple(numbers.tolist()),
        0,
    )
    found = collect_states(context, words, label)
    states = np.empty_like(found.states)
    states[:, order] = found.states
    return found.layers, states


def show_occurrences(
    tokenizer: Tokenizer,
    rows: Sequence[np.ndarray],
    occurrences: Sequence[Occurrence],
) -> list[str]:
    """Returns the text of occurrences, with five tokens on each side.

    Args:
        tokenizer: The tokenizer.
        rows: The token ids of all texts.
        occurrences: The occurrences.
    """
    ids = [
        rows[text][max(0, start - _AROUND) : end + _AROUND].tolist()
        for text, start, end in occurrences
    ]
    texts = tokenizer.detokenize(tf.ragged.constant(ids, tf.int32, 1))
    return [text.decode("utf-8", "replace") for text in texts.numpy()]


def token_rows(context: AnalysisContext, *, decoder: bool = False) -> list[np.ndarray]:
    """Returns the token ids of all texts, each int32 (T,).

    Args:
        context: The texts.
        decoder: In an encoder-decoder those of the decoder, else of the encoder.
    """
    name = "token_ids"
    if "encoder_token_ids" in context.model.input:
        name = "decoder_token_ids" if decoder else "encoder_token_ids"
    return [row[name] for row in context.texts.rows]
