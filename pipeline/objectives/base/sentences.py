"""Splits documents into sentences and tokenizes them."""

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.packing.sequence_packing import cut_documents
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

# Sentence ends: after the final punctuation, closing quotes or brackets, and white
# space (which East Asian scripts do not have); or at the end of a line.
_END = {
    "punctuation": re.compile(
        r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])[”’」』）]*\s*|\s*\n\s*"
    ),
    "lines": re.compile(r"\s*\n\s*"),
}


def split_sentences(text: str, rule: str = "punctuation") -> list[str]:
    """Splits a text into sentences, whose concatenation is the text.

    The period of an abbreviation also ends a sentence; the objectives do not need exact
    sentence boundaries.

    Example:
    >>> split_sentences('He left. "Why?" Nobody knew')
    ['He left. ', '"Why?" ', 'Nobody knew']
    """
    cuts = [0, *(match.end() for match in _END[rule].finditer(text)), len(text)]
    return [text[a:b] for a, b in pairwise(cuts) if a < b]


def has_two_sentences(text: str, rule: str = "punctuation") -> bool:
    """Returns whether a text has at least two sentences.

    Example:
    >>> has_two_sentences("One. Two"), has_two_sentences("Only one. ")
    (True, False)
    """
    first = _END[rule].search(text)
    return first is not None and first.end() < len(text)


def sample_excerpt(text: str, rule: str, share: float, characters: int) -> str:
    """Returns consecutive sentences of a text, from a given relative position.

    Args:
        text: A text.
        rule: The kind of sentence end, a key of `_END`.
        share: A number from 0 to 1: the relative position in the text.
        characters: The maximum length of the result in characters; a longer first
            sentence is truncated.

    Example:
    >>> sample_excerpt("One. Two. Three. Four.", "punctuation", 0.1, 12)
    'Two. Three. '
    """
    place = int(share * len(text))
    found = _END[rule].search(text, place) if place else None
    begin = found.end() if found and found.end() < len(text) else 0
    stretch = text[begin : begin + characters]
    if begin + characters < len(text):
        ends = [match.end() for match in _END[rule].finditer(stretch)]
        stretch = stretch[: ends[-1]] if ends else stretch
    return stretch


@dataclass(frozen=True)
class Sentences:
    """The sentences of many documents, as ranges of one array of ids.

    Attributes:
        ids: int32 (tokens,). All sentences, concatenated.
        edges: int64 (S + 1,). The index in `ids` of each sentence's first token, and at
            the end the length of `ids`.
        first: int64 (D + 1,). The index of each document's first sentence, and at the
            end the number of sentences.
    """

    ids: np.ndarray
    edges: np.ndarray
    first: np.ndarray

    @property
    def per_document(self) -> np.ndarray:
        """The number of sentences of each document, int64 (D,)."""
        return np.diff(self.first)


def tokenize_sentences(
    batch: DocumentBatch, tokenizer: Tokenizer, rule: str, longest: int
) -> Sentences:
    """Tokenizes documents sentence by sentence.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        rule: The kind of sentence end, a key of `_END`.
        longest: The maximum number of tokens; longer sentences are cut, and each part
            counts as a sentence.
    """
    split = [
        [sentence.encode("utf-8") for sentence in split_sentences(text.decode(), rule)]
        for text in batch.texts()
    ]
    owner = np.repeat(np.arange(len(batch)), [len(sentences) for sentences in split])
    rows = tokenize_texts([one for sentences in split for one in sentences], tokenizer)
    no_keys = np.zeros(len(owner), np.uint64)
    pieces = cut_documents(rows.row_splits, no_keys, longest)
    per_document = np.bincount(owner[pieces.documents], minlength=len(batch))
    return Sentences(
        ids=rows.ids,
        edges=np.append(pieces.starts, len(rows.ids)),
        first=np.concatenate([[0], np.cumsum(per_document)]),
    )
