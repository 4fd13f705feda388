"""Tokens of a row as the page shows them: pieces, character offsets and words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transbeam.pipeline.tokenizers.base.interface import Tokenizer, TokenOffsets
from transbeam.pipeline.tokenizers.base.vocabulary import MASK
from transbeam.serving.text_ops.mask_tokens import answer_pieces

# A token is searched for among the next tokens of its text: special tokens, and words
# that a task tokenizes one by one, are not tokenized as in the whole text.
_AHEAD = 16


@dataclass(frozen=True)
class DescribedToken:
    """A token of a row.

    Attributes:
        id: The token's id.
        piece: The readable piece.
        text: Index of the text that the token is from; None for tokens that are not
            from a text, such as `[CLS]`.
        start: Offset of the token's first character in that text, in code points; None
            if there is no text, or the token was not found in it.
        end: Offset after its last character.
        word: Index of the token's word in the row.
        special: Whether the token is a special token.
    """

    id: int
    piece: str
    text: int | None
    start: int | None
    end: int | None
    word: int
    special: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class TokenDescriber:
    """Describes the tokens of rows.

    Args:
        tokenizer: The tokenizer that made the tokens.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._pieces = piece_texts(tokenizer)
        self._is_special = np.ones(tokenizer.vocabulary_size, bool)
        self._is_special[tokenizer.ordinary_ids] = False
        special = tokenizer.special
        if special.unknown is not None:
            self._is_special[special.unknown] = False
        marks = {tokenizer.pieces[id]: id for id in special.sentinels}
        if special.mask is not None:
            marks[MASK] = special.mask
        self._marks = marks

    def describe(
        self, ids: Sequence[int], texts: Sequence[str]
    ) -> list[DescribedToken]:
        """Describes the tokens of a row.

        Args:
            ids: The ids of the row, without padding.
            texts: The texts of the row, in their order; each may be cut in the row.
        """
        spans = align_tokens(
            ids, [self._tokens(text, len(ids)) for text in texts], self._ends_text
        )
        # The first word of a text has no space before it, by which byte-level BPE tells
        # words apart.
        is_first = [span is not None and span[1] == 0 for span in spans]
        starts = self._tokenizer.starts_word[list(ids)] | np.array(is_first, bool)
        words = np.cumsum([i == 0 or bool(s) for i, s in enumerate(starts)]) - 1
        return [
            DescribedToken(
                id=token,
                piece=self._pieces[token],
                text=span[0] if span else None,
                start=span[1] if span else None,
                end=span[2] if span else None,
                word=int(word),
                special=bool(self._is_special[token]),
            )
            for token, word, span in zip(ids, words, spans, strict=True)
        ]

    def pieces(self, ids: Iterable[int]) -> dict[str, str]:
        """Returns the readable pieces of some tokens by their ids, as JSON has keys."""
        return {str(token): self._pieces[token] for token in sorted(set(ids))}

    def _ends_text(self, token: int) -> bool:
        return token == self._tokenizer.special.end

    def _tokens(self, text: str, most: int) -> TokenOffsets:
        """Tokenizes a text in which literals such as `[MASK]` are special tokens."""
        if not any(mark in text for mark in self._marks):
            [found] = self._tokenizer.tokenize_with_offsets([text])
            return TokenOffsets(found.ids[:most], found.offsets[:most])
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        place = 0
        for part in re.split(f"({'|'.join(map(re.escape, self._marks))})", text):
            if part in self._marks:
                ids.append(self._marks[part])
                offsets.append((place, place + len(part)))
            elif part:
                [found] = self._tokenizer.tokenize_with_offsets([part])
                ids += found.ids
                offsets += [(place + a, place + b) for a, b in found.offsets]
            place += len(part)
        return TokenOffsets(ids[:most], offsets[:most])


def piece_texts(tokenizer: Tokenizer) -> list[str]:
    """Returns a readable text for each id; a part of a character is shown as �.

    Args:
        tokenizer: Any tokenizer.
    """
    return [piece.decode("utf-8", "replace") for piece in answer_pieces(tokenizer)]


def align_tokens(
    ids: Sequence[int], texts: Sequence[TokenOffsets], ends_text: Any
) -> list[tuple[int, int, int] | None]:
    """Finds the tokens of a row in its texts.

    Args:
        ids: The ids of the row.
        texts: The tokens of each text with their offsets.
        ends_text: A function of an id: whether the next token is of the next text.

    Returns:
        For each token the index of its text, its start and its end; None if the token
        is not from a text.

    Example:
    >>> text = TokenOffsets([5, 6, 7], [(0, 2), (3, 5), (6, 8)])
    >>> align_tokens([1, 5, 7, 2, 6], [text, text], lambda id: id == 2)
    [None, (0, 0, 2), (0, 6, 8), None, (1, 3, 5)]
    """
    found: list[tuple[int, int, int] | None] = []
    text = place = 0
    for token in ids:
        tokens = texts[text] if text < len(texts) else TokenOffsets([], [])
        ahead = tokens.ids[place : place + _AHEAD]
        if token in ahead:
            place += ahead.index(token)
            found.append((text, *tokens.offsets[place]))
            place += 1
        else:
            found.append(None)
            if ends_text(token):
                text, place = text + 1, 0
    return found
