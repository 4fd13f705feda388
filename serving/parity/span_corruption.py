"""Parity of exported span corruption models with Keras."""

import numpy as np
import tensorflow as tf

from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most
from transbeam.serving.parity.generation import (
    ExpectedGeneration,
    GenerationParityChecker,
)
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.text_ops.sentinels import tokenize_with_gaps


class SpanCorruptionParityChecker(GenerationParityChecker):
    """Checks generated texts, scores and the text for each sentinel."""

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        answers = ask("serving_default", self._columns(self.expected))
        different = 0
        for row, one in enumerate(self.expected):
            new = answers["token_ids"][row, : answers["length"][row]]
            found = [answers[name][row].tolist() for name in ("gaps", "fills")]
            gaps, fills = self._gaps(one), self._fills(one, new)
            rest = [b""] * (len(found[0]) - len(gaps))
            different += found != [gaps + rest, fills + rest]
        return [
            *super().saved_model_rows(form, ask),
            at_most(form, "gaps filled otherwise, texts", different, 0),
        ]

    def _gaps(self, one: ExpectedGeneration) -> list[bytes]:
        """Returns the sentinels in a text as strings, such as `<extra_id_0>`."""
        special, pieces = self.trained.tokenizer.special, self.trained.tokenizer.pieces
        sentinels = [token for token in one.ids.tolist() if token in special.sentinels]
        return [pieces[token].encode() for token in sentinels]

    def _fills(self, one: ExpectedGeneration, new: np.ndarray) -> list[bytes]:
        """Returns the generated text for each sentinel of the input text."""
        said: dict[int, list[int]] = {}
        ignored: list[int] = []
        tokens = ignored
        sentinels = self.trained.tokenizer.special.sentinels
        for token in new.tolist():
            if token not in sentinels:
                tokens.append(token)
            elif token in said:  # a second time
                tokens = ignored
            else:
                tokens = said[token] = []
        gaps = [token for token in one.ids.tolist() if token in sentinels]
        texts = [self._read(np.array(said.get(gap, []), np.int32)) for gap in gaps]
        return [text.decode("utf-8", "replace").strip(" ").encode() for text in texts]

    def _tokens(self, text: str) -> list[int]:
        tokens = tokenize_with_gaps(self.trained.tokenizer, tf.constant([text]))
        return tokens.to_list()[0]
