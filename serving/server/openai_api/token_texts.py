"""Texts of single tokens and of token ids, outside a model's graph."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.serving.server.openai_api.openai_errors import bad_field

# Preceding tokens that affect how a token is detokenized; UTF-8 has up to four bytes.
_CONTEXT = 4
_Ragged: Any = tf.RaggedTensor


class TokenTexts:
    """Converts token ids to texts, as `generate` does in a model's graph.

    Args:
        model: The tokenizer of an export.
    """

    def __init__(self, model: TokenizerModel):
        self._tokenizer = model.build()
        special = self._tokenizer.special
        self._pieces = model.pieces
        # The start token of an encoder-decoder's decoder.
        self.first = special.pad if special.begin is None else special.begin
        framing = (special.pad, special.begin, special.end, *special.stop)
        self._silent = frozenset(each for each in framing if each is not None)

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self._pieces)

    def check(self, prompts: Sequence[Sequence[int]], param: str) -> None:
        """Rejects token ids that are not in the vocabulary.

        Args:
            prompts: The token ids, at least one in each prompt.
            param: Name of the field.

        Raises:
            OpenAIRequestError: An id is not in the vocabulary.
        """
        largest = max(map(max, prompts))
        if largest >= self.vocabulary_size:
            raise bad_field(
                param, f"token ids below {self.vocabulary_size:,}; found {largest}"
            )

    def text(self, ids: Iterable[int], before: Sequence[int] = ()) -> bytes:
        """Returns the text of tokens; special tokens have none.

        Args:
            ids: The tokens.
            before: The tokens that precede them, whose text is not returned.

        Returns:
            UTF-8, which may begin or end within a character.
        """
        context = self._spoken(before)[-_CONTEXT:]
        whole, beginning = self._detokenized([context + self._spoken(ids), context])
        return whole[len(beginning) :]

    def token_texts(
        self, ids: np.ndarray, candidates: np.ndarray, before: Sequence[int] = ()
    ) -> list[list[bytes]]:
        """Returns the text that each candidate adds at its position.

        Texts of special tokens are their names. Concatenated, the texts of the other
        `ids` are the text of all of them, unless the tokenizer replaces bytes of
        incomplete characters.

        Args:
            ids: int (N,), the tokens.
            candidates: int (N, K), tokens at the position of each.
            before: The tokens that precede `ids`.

        Returns:
            N lists of K texts.
        """
        known, contexts = self._spoken(before)[-_CONTEXT:], []
        for token in ids.tolist():
            contexts.append(known)
            known = [*known, *self._spoken([token])][-_CONTEXT:]
        rows = [
            [*context, token]
            for context, row in zip(contexts, candidates.tolist(), strict=True)
            for token in row
        ]
        whole = iter(self._detokenized(rows))
        beginnings = self._detokenized(contexts)
        return [
            [
                self._pieces[token].encode()
                if token in self._silent
                else next_text[len(beginning) :]
                for token, next_text in zip(row, whole, strict=False)
            ]
            for row, beginning in zip(candidates.tolist(), beginnings, strict=True)
        ]

    def are_tokens_of(self, ids: Sequence[int], tokens: Sequence[int]) -> bool:
        """Returns whether two lists have the same tokens, special ones aside."""
        return self._spoken(ids) == self._spoken(tokens)

    def _spoken(self, ids: Iterable[int]) -> list[int]:
        return [token for token in ids if token not in self._silent]

    def _detokenized(self, rows: Sequence[Sequence[int]]) -> list[bytes]:
        if not rows:
            return []
        flat = np.array([token for row in rows for token in row], np.int32)
        lengths = np.array(list(map(len, rows)), np.int64)
        ragged = _Ragged.from_row_lengths(flat, lengths)
        return self._tokenizer.detokenize(ragged).numpy().tolist()
