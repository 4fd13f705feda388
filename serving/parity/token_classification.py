"""Parity of exported token classification models with Keras."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import (
    IN_FLOATS,
    ParityCheck,
    agreement_row,
    at_most,
    largest,
    log_softmax,
    phone_row,
    tokens_row,
)
from transbeam.serving.parity.base.parity_texts import labelled_texts
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.text_ops.word_split import split_words

_LONGEST_WORD = 16
_CHARACTERS_PER_TOKEN = 8  # no text has as many, so cut texts have several rows


@dataclass(frozen=True)
class ExpectedTags:
    """The reference outputs for one text.

    Attributes:
        text: The text.
        words: Its W words.
        pieces: int32 (T,), the tokens of all words.
        rows: int32 (T',) each, the rows with special tokens.
        places: For each row, the positions at which its words begin.
        answer: float64 (W, C), log-probabilities in nats.
    """

    text: str
    words: list[bytes]
    pieces: np.ndarray
    rows: list[np.ndarray]
    places: list[list[int]]
    answer: np.ndarray


class TokenClassificationParityChecker:
    """Checks token classification; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: The texts; latency is measured on the first.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[str]):
        objective = trained.config.objective
        assert isinstance(objective, TokenClassificationConfig)
        self.labels = objective.labels
        self.tolerance = trained.config.export.tolerance
        reader = _TagReader(trained)
        self.expected = [reader.expect(text) for text in texts]

    @classmethod
    def from_run(
        cls, trained: TrainedRun, run_folder: Path
    ) -> "TokenClassificationParityChecker":
        """Returns a checker on the texts of `labelled_texts`, cut to a few rows."""
        most = _CHARACTERS_PER_TOKEN * trained.config.model.max_sequence_length
        return cls(
            trained, [text[:most] for (text,) in labelled_texts(trained, run_folder)]
        )

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        texts = {"text": [one.text for one in self.expected]}
        answers, tokens = ask("serving_default", texts), dict(ask("tokenize", texts))
        other = off = lost = 0.0
        for row, one in enumerate(self.expected):
            number = len(one.words)
            found = {name: column[row] for name, column in answers.items()}
            words = found["words"]
            other += (
                words[:number].tolist() != one.words or (words[number:] != b"").any()
            )
            if other or not number:
                continue
            tags = [self.labels.index(tag.decode()) for tag in found["tags"][:number]]
            said = one.answer[np.arange(number), tags]
            scores = np.log(found["scores"][:number], dtype=np.float64)
            off = max(off, largest(scores - said))
            # Either of two equally probable tags may be predicted.
            lost = max(lost, largest(one.answer.max(axis=1) - said))
        limit = self.tolerance.saved_model
        return [
            tokens_row(form, tokens, [one.pieces for one in self.expected]),
            at_most(form, "words, texts that differ", other, 0),
            at_most(form, "log-probability, largest difference", off, limit),
            at_most(form, "log-probability below the best tag's", lost, limit),
        ]

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        answer = np.concatenate(
            [self._phone_answer(model, one) for one in self.expected]
        )
        reference = np.concatenate([one.answer for one in self.expected])
        off, limits = answer - reference, self.tolerance
        rows = [phone_row(form, "log-probability", off, variant, limits)]
        if variant not in IN_FLOATS:
            what = "tag, share equal"
            rows.append(agreement_row(form, what, answer, reference, variant, limits))
        return rows

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", {"text": [self.expected[0].text]})

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._phone_answer(model, self.expected[0])

    def _phone_answer(self, model: TFLiteRunner, one: ExpectedTags) -> np.ndarray:
        found = [
            log_softmax(model.ask("tag_ids", **_alone(row))["logits"][places])
            for row, places in zip(one.rows, one.places, strict=True)
        ]
        return np.concatenate([*found, np.zeros((0, len(self.labels)))])


class _TagReader:
    """Runs the Keras model on each text separately, row by row."""

    def __init__(self, trained: TrainedRun):
        self.tokenizer, self.model = trained.tokenizer, trained.model
        self.room = trained.config.model.max_sequence_length - 2
        self.longest = min(_LONGEST_WORD, (self.room + 1) // 2)

    def expect(self, text: str) -> ExpectedTags:
        words = [
            bytes(word) for word in split_words(tf.constant([text])).texts[0].numpy()
        ]
        pieces = [self._pieces(word, place) for place, word in enumerate(words)]
        rows, places, answer = [], [], []
        for row, begins in self._rows(pieces):
            batch = {name: x[np.newaxis] for name, x in _alone(row).items()}
            logits = self.model(batch, training=False)["logits"]
            answer.extend(log_softmax(np.asarray(logits)[0])[begins])
            rows.append(row)
            places.append(begins)
        flat = np.array([piece for word in pieces for piece in word], np.int32)
        number = self.model.output["logits"].shape[-1]
        return ExpectedTags(
            text, words, flat, rows, places, np.reshape(answer, (-1, number))
        )

    def _pieces(self, word: bytes, place: int) -> list[int]:
        prefix = self.tokenizer.word_prefix.encode() if place else b""
        (found,) = self.tokenizer.tokenize([prefix + word]).to_list()
        unknown = self.tokenizer.special.unknown
        return found[: self.longest] or ([] if unknown is None else [unknown])

    def _rows(self, pieces: list[list[int]]) -> list[tuple[np.ndarray, list[int]]]:
        """Returns the rows, and the positions at which words begin in each."""
        step = self.room - self.longest + 1
        if sum(map(len, pieces)) <= self.room:
            step = self.room
        stretches: dict[int, list[list[int]]] = {}
        read = 0
        for word in pieces:
            read += len(word)
            stretches.setdefault(max(read - 1, 0) // step, []).append(word)
        return [self._framed(words) for words in stretches.values()]

    def _framed(self, words: list[list[int]]) -> tuple[np.ndarray, list[int]]:
        special, begins = self.tokenizer.special, []
        row = [special.begin]
        for word in words:
            begins.append(len(row))
            row += word
        return np.array([*row, special.end], np.int32), begins


def _alone(token_ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}
