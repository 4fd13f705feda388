"""Byte spans of a text's tokens."""

import re

import numpy as np

from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.bits_per_byte import added_bytes


def token_spans(text: bytes, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Finds the byte span of each token in a text.

    If tokens are bytes of the text, their lengths are added up. Otherwise the text's
    words are tokenized one by one; a token boundary inside a word is at the longest
    prefix whose tokens are exactly those before the boundary. A token whose boundary
    has no such prefix extends to the next known one. If the words give other tokens
    than the text, every token spans the whole text.

    Args:
        text: UTF-8.
        tokenizer: The run's tokenizer.

    Returns:
        int64 (T,) twice: byte offsets of each token's begin and end in the text.
    """
    ids = tokenize_texts([text], tokenizer).ids
    table = piece_bytes(tokenizer)
    if table is not None:
        (added,) = added_bytes([text], tokenizer, table)
        if added >= 0:
            edges = np.concatenate([[0], np.cumsum(table[ids]) - added])
            return edges[:-1], edges[1:]
    words = _words(text)
    alone = tokenize_texts(
        [tokenizer.word_prefix.encode() + text[a:b] for a, b in words], tokenizer
    )
    if not np.array_equal(alone.ids, ids):
        return np.zeros(len(ids), np.int64), np.full(len(ids), len(text))
    begins, ends = [], []
    for (begin, end), count in zip(words, alone.lengths.tolist(), strict=True):
        inner = _edges(text[begin:end], count, tokenizer) if count > 1 else {}
        # For a missing boundary, spans extend to the previous and the next known one.
        before = after = 0
        starts, stops = [], []
        for place in range(count):
            before = inner.get(place, before)
            starts.append(begin + before)
        after = end - begin
        for place in range(count, 0, -1):
            after = after if place == count else inner.get(place, after)
            stops.append(begin + after)
        begins += starts
        ends += stops[::-1]
    return np.array(begins, np.int64), np.array(ends, np.int64)


def _words(text: bytes) -> list[tuple[int, int]]:
    """Byte spans of whitespace-separated words."""
    told = text.decode("utf-8")
    found = []
    at = characters = 0
    for word in re.finditer(r"\S+", told):
        at += len(told[characters : word.start()].encode())
        length = len(word.group().encode())
        found.append((at, at + length))
        at, characters = at + length, word.end()
    return found


def _edges(word: bytes, count: int, tokenizer: Tokenizer) -> dict[int, int]:
    """Bytes of the longest prefix that consists of a word's first n tokens, by n.

    Args:
        word: UTF-8, of `count` tokens.
        count: At least 2.
        tokenizer: The run's tokenizer.
    """
    told = word.decode("utf-8")
    beginnings = [told[:end].encode() for end in range(1, len(told) + 1)]
    prefix = tokenizer.word_prefix.encode()
    rows = tokenize_texts([prefix + beginning for beginning in beginnings], tokenizer)
    whole = rows.ids[rows.row_splits[-2] :]
    edges = {}
    for beginning, start, end in zip(
        beginnings, rows.row_splits[:-1], rows.row_splits[1:], strict=True
    ):
        here = rows.ids[start:end]
        if len(here) < count and np.array_equal(here, whole[: len(here)]):
            edges[len(here)] = len(beginning)
    return edges
