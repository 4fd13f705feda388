"""Maps the characters of an answer to its tokens.

`tokenize` reports no character offsets. But the tokens of a prefix of a text are the
first tokens of the whole text, unless the prefix ends inside a token: so the text
before an answer and the text up to the answer's end are tokenized too, and compared
with the tokens of the whole text.
"""

from dataclasses import dataclass

import numpy as np

from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.closest_run import closest_run
from transbeam.pipeline.records.token_rows import TokenRows, ranges, tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def answer_characters(batch: DocumentBatch, reasons: list[str | None]) -> np.ndarray:
    """Returns the offsets of each question's first answer, stripped of white space.

    A document with a target text in place of answers has the run of words that is
    closest to it as its answer.

    Args:
        batch: Texts with `answers`, or with a target text.
        reasons: For each document, the reason why it cannot be used, or None. Changed
            in place: a reason is set for an answer that is blank, or whose text is not
            found at its offset, and for a target text that shares no word with the
            text.

    Returns:
        int64 (D, 2). Character offsets of each answer's start and end in `text`; -1 if
        there is no answer.
    """
    found = np.full((len(batch), 2), -1, np.int64)
    texts, targets = batch.texts(), batch.texts("target_text")
    for row, answers in enumerate(batch.values("answers")):
        if reasons[row] is not None:
            continue
        if not answers:
            wording = targets[row].decode("utf-8")
            run = closest_run(texts[row].decode("utf-8"), wording)
            if run is not None:
                found[row] = run
            elif wording:
                reasons[row] = "target_text shares no word with text"
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
        first: int64. The index of the answer's first token among the tokens of the
            text.
        last: int64. The index of the answer's last token among the tokens of the text;
            -1 if there is no answer.
        exact: bool. False if the answer begins or ends inside a token.
    """

    first: np.ndarray
    last: np.ndarray
    exact: np.ndarray


def answer_tokens(
    texts: np.ndarray, characters: np.ndarray, tokens: TokenRows, tokenizer: Tokenizer
) -> AnswerSpans:
    """Finds the tokens of answers.

    An answer that begins or ends inside a token is extended to whole tokens: from the
    token in which it begins to the end of the word in which it ends.

    Args:
        texts: object (D,). UTF-8.
        characters: int64 (D, 2). The character offsets of each answer's start and end;
            -1 if there is no answer.
        tokens: The tokens of the texts.
        tokenizer: The tokenizer that produced `tokens`.
    """
    asked = np.flatnonzero(characters[:, 1] >= 0)
    decoded = [texts[row].decode("utf-8") for row in asked]
    starts, ends = characters[asked, 0].tolist(), characters[asked, 1].tolist()
    first, first_exact = _tokens_before(decoded, starts, asked, tokens, tokenizer)
    after, after_exact = _tokens_before(decoded, ends, asked, tokens, tokenizer)

    # An answer that ends inside a token is extended to the next word start.
    word_starts = np.flatnonzero(tokenizer.starts_word[tokens.ids])
    place = tokens.row_splits[:-1][asked] + after + 1
    next_word = np.append(word_starts, len(tokens.ids))[
        np.searchsorted(word_starts, place)
    ]
    word_end = np.minimum(next_word, tokens.row_splits[1:][asked])
    after = np.where(after_exact, after, word_end - tokens.row_splits[:-1][asked])

    # An answer of only characters that tokenizers drop gets the adjacent token.
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
    """Counts tokens before an offset; also returns whether it is a token boundary.

    Args:
        texts: The texts, N.
        places: Character offsets, N.
        rows: int64 (N,). The index of each text's row in `tokens`.
        tokens: The tokens of the texts, and possibly of other texts, one row per text.
        tokenizer: The tokenizer that produced `tokens`.
    """
    # Without a trailing space: for some tokenizers it belongs to the next word.
    beginnings = [
        text[:place].removesuffix(" ").encode("utf-8")
        for text, place in zip(texts, places, strict=True)
    ]
    prefix = tokenize_texts(beginnings, tokenizer)
    starts = tokens.row_splits[:-1][rows]
    count = np.minimum(prefix.lengths, tokens.lengths[rows])
    cells = np.repeat(starts, count) + ranges(count)
    own = np.repeat(prefix.row_splits[:-1], count) + ranges(count)
    differs = np.append(np.flatnonzero(tokens.ids[cells] != prefix.ids[own]), len(own))
    before = np.cumsum(count) - count
    alike = np.minimum(differs[np.searchsorted(differs, before)] - before, count)
    exact = alike == prefix.lengths

    # The prefix of an unknown word is also one unknown piece.
    inside = np.array(list(map(_inside_word, texts, places)), np.bool_)
    last = np.append(prefix.ids, -1)[prefix.row_splits[1:] - 1]  # prefixes may be empty
    unclear = exact & inside & (last == tokenizer.special.unknown) & (alike > 0)
    return alike - unclear, exact & ~unclear


def _inside_word(text: str, place: int) -> bool:
    around = text[max(place - 1, 0) : place + 1]
    return len(around) == 2 and not any(character.isspace() for character in around)
