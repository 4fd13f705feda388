"""From the characters of an answer to its tokens.

Tokens know nothing of the characters they were made from. But the tokens of the text
up to a place are the first of the tokens of the whole text, unless the place is
inside a token: so the text before an answer and the text up to its end are tokenized
too, and held against the whole.
"""

from dataclasses import dataclass

import numpy as np

from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.token_arrays import ranges
from transbeam.pipeline.records.token_rows import TokenRows, tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def answer_characters(batch: DocumentBatch, reasons: list[str | None]) -> np.ndarray:
    """Where the first answer to each question stands, blanks at its ends left out.

    Args:
        batch: Texts with `answers`.
        reasons: Why a document cannot be used; answers that are not where they are
            said to be are added.

    Returns:
        int64 (D, 2). Character offsets of its start and its end in `text`; -1 where
        there is no answer.
    """
    found = np.full((len(batch), 2), -1, np.int64)
    texts = batch.texts()
    for row, answers in enumerate(batch.values("answers")):
        if not answers or reasons[row] is not None:
            continue
        offset, wording = answers[0]["offset"], answers[0]["text"]
        there = texts[row].decode("utf-8")[max(offset, 0) :]
        if not wording.strip():
            reasons[row] = "answer is blank"
        elif offset < 0 or not there.startswith(wording):
            reasons[row] = "answer is not where its offset says"
        else:
            start = offset + len(wording) - len(wording.lstrip())
            found[row] = start, offset + len(wording.rstrip())
    return found


@dataclass(frozen=True)
class AnswerSpans:
    """The tokens of answers; all arrays (D,).

    Attributes:
        first: int64. Place in the text of the first token.
        last: int64. Place of the last token, itself included; -1: no answer.
        exact: bool. False where the answer begins or ends inside a token.
    """

    first: np.ndarray
    last: np.ndarray
    exact: np.ndarray


def answer_tokens(
    texts: np.ndarray, characters: np.ndarray, tokens: TokenRows, tokenizer: Tokenizer
) -> AnswerSpans:
    """Finds the tokens that answers are made of.

    An answer that begins or ends inside a token gets whole tokens: from the one it
    begins in to the end of the word it ends in.

    Args:
        texts: object (D,). UTF-8.
        characters: int64 (D, 2). Start and end of each answer; -1 for none.
        tokens: The tokens of the texts.
        tokenizer: Made them.
    """
    asked = np.flatnonzero(characters[:, 1] >= 0)
    decoded = [texts[row].decode("utf-8") for row in asked]
    starts, ends = characters[asked, 0].tolist(), characters[asked, 1].tolist()
    first, first_exact = _tokens_before(decoded, starts, asked, tokens, tokenizer)
    after, after_exact = _tokens_before(decoded, ends, asked, tokens, tokenizer)

    # Where an answer ends inside a token, it goes on to where the next word starts.
    word_starts = np.flatnonzero(tokenizer.starts_word[tokens.ids])
    place = tokens.row_splits[:-1][asked] + after + 1
    next_word = np.append(word_starts, len(tokens.ids))[
        np.searchsorted(word_starts, place)
    ]
    word_end = np.minimum(next_word, tokens.row_splits[1:][asked])
    after = np.where(after_exact, after, word_end - tokens.row_splits[:-1][asked])

    # An answer of nothing but what tokenizers leave out gets the token next to it.
    exact = first_exact & after_exact & (after > first)
    first = np.minimum(first, tokens.lengths[asked] - 1)
    last = np.maximum(after - 1, first)

    spans = AnswerSpans(
        np.full(len(texts), -1), np.full(len(texts), -1), np.ones(len(texts), np.bool_)
    )
    spans.first[asked], spans.last[asked], spans.exact[asked] = first, last, exact
    return spans


def _tokens_before(
    texts: list[str],
    places: list[int],
    rows: np.ndarray,
    tokens: TokenRows,
    tokenizer: Tokenizer,
) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of each text stand before a place, and whether it is between two.

    Args:
        texts: The texts, N.
        places: Offsets in characters, N.
        rows: int64 (N,). The row of each text in `tokens`.
        tokens: The tokens of the texts, and of others.
        tokenizer: Made them.
    """
    # One space less: to some tokenizers it belongs to the word after it.
    begun = [
        text[:place].removesuffix(" ").encode("utf-8")
        for text, place in zip(texts, places, strict=True)
    ]
    prefix = tokenize_texts(begun, tokenizer)
    starts = tokens.row_splits[:-1][rows]
    count = np.minimum(prefix.lengths, tokens.lengths[rows])
    cells = np.repeat(starts, count) + ranges(count)
    own = np.repeat(prefix.row_splits[:-1], count) + ranges(count)
    differs = np.append(np.flatnonzero(tokens.ids[cells] != prefix.ids[own]), len(own))
    before = np.cumsum(count) - count
    alike = np.minimum(differs[np.searchsorted(differs, before)] - before, count)
    exact = alike == prefix.lengths

    # Of a word without pieces the beginning looks like the whole.
    inside = np.array(list(map(_inside_word, texts, places)), np.bool_)
    last = np.append(prefix.ids, -1)[prefix.row_splits[1:] - 1]  # of some ids or none
    unclear = exact & inside & (last == tokenizer.special.unknown) & (alike > 0)
    return alike - unclear, exact & ~unclear


def _inside_word(text: str, place: int) -> bool:
    around = text[max(place - 1, 0) : place + 1]
    return len(around) == 2 and not any(character.isspace() for character in around)
