"""Parity of exported models with one answer for each word of a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.objective import WordsObjective
from transbeam.configs.schema.objectives.traits import traits
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.parity.base.keras_outputs import keras_outputs
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    at_most,
    tokens_row,
)
from transbeam.serving.parity.base.parity_texts import (
    labelled_texts,
    row_inputs,
)
from transbeam.serving.parity.base.pooled_answers import AnswerParity
from transbeam.serving.parity.base.word_answers import make_word_parity
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.text_ops.word_split import split_words

_LONGEST_WORD = 16
_CHARACTERS_PER_TOKEN = 8  # no text has as many, so cut texts have several rows


@dataclass(frozen=True)
class ExpectedWords:
    """The reference outputs for one text.

    Attributes:
        text: The text.
        words: Its W words.
        pieces: int32 (T,), the tokens of all words.
        rows: The rows of token ids with special tokens, int32 (T',) each.
        positions: For each row, the positions at which its words begin.
        answer: float64 (W, ...), the scores of the words, which `AnswerParity.read`
            extracts from the Keras model's outputs.
    """

    text: str
    words: list[bytes]
    pieces: np.ndarray
    rows: list[np.ndarray]
    positions: list[list[int]]
    answer: np.ndarray


class WordsParityChecker:
    """Checks models that read the words of a text; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: The input texts; latency is measured on the first text.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[str]):
        objective = trained.config.objective
        assert isinstance(objective, WordsObjective)
        signature = traits(objective).ids_signature
        assert signature is not None
        self.answer, self.signature = make_word_parity(objective), signature
        self.tolerance = trained.config.export.tolerance
        reader = _WordReader(trained, self.answer)
        self.expected = [reader.expect(text) for text in texts]

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "WordsParityChecker":
        """Returns a checker for `labelled_texts`, truncated to a few rows each."""
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
        other, compared = 0, []
        for row, one in enumerate(self.expected):
            number, words = len(one.words), answers["words"][row]
            other += (
                words[:number].tolist() != one.words or (words[number:] != b"").any()
            )
            if not other:
                compared.append((row, number))
        # After a text with other words nothing says which answers belong together.
        found = {}
        for name in self.answer.columns:
            column = answers[name]
            rows = [column[row, :number] for row, number in compared]
            found[name] = np.concatenate([column[:0, :0].ravel(), *rows])
        reference = self._reference(self.expected[: len(compared)])
        limit = self.tolerance.saved_model
        return [
            tokens_row(form, tokens, [one.pieces for one in self.expected]),
            at_most(form, "words, texts that differ", other, 0),
            *self.answer.saved_model_rows(form, found, reference, limit),
        ]

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        answer = np.concatenate(
            [self._phone_answer(model, one) for one in self.expected]
        )
        reference = self._reference(self.expected)
        return self.answer.phone_rows(form, variant, answer, reference, self.tolerance)

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", {"text": [self.expected[0].text]})

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._phone_answer(model, self.expected[0])

    def _reference(self, expected: Sequence[ExpectedWords]) -> np.ndarray:
        """Returns Keras's scores for all words of the given texts."""
        none = self.expected[0].answer[:0]
        return np.concatenate([none, *(one.answer for one in expected)])

    def _phone_answer(self, model: TFLiteRunner, one: ExpectedWords) -> np.ndarray:
        found = [
            self.answer.read(
                _at(model.ask(self.signature, **row_inputs(row)), positions)
            )
            for row, positions in zip(one.rows, one.positions, strict=True)
        ]
        return np.concatenate([one.answer[:0], *found])


class _WordReader:
    """Runs the Keras model on each text separately, row by row."""

    def __init__(self, trained: TrainedRun, answer: AnswerParity):
        self.trained, self.tokenizer = trained, trained.tokenizer
        self.answer = answer
        self.frame = frame_of_run(trained.config, trained.tokenizer.special)
        self.room = trained.config.model.max_sequence_length - self.frame.size()
        self.longest = min(_LONGEST_WORD, (self.room + 1) // 2)

    def expect(self, text: str) -> ExpectedWords:
        words = [
            bytes(word) for word in split_words(tf.constant([text])).texts[0].numpy()
        ]
        pieces = [self._pieces(word, index) for index, word in enumerate(words)]
        rows = self._rows(pieces)
        answer = np.concatenate([self._ask(*row) for row in rows or [self._framed([])]])
        flat = np.array([piece for word in pieces for piece in word], np.int32)
        positions = [begins for _, begins in rows]
        return ExpectedWords(
            text, words, flat, [row for row, _ in rows], positions, answer
        )

    def _ask(self, row: np.ndarray, begins: list[int]) -> np.ndarray:
        batch = {name: x[np.newaxis] for name, x in row_inputs(row).items()}
        outputs = keras_outputs(self.trained, batch)
        alone = {name: value[0] for name, value in outputs.items()}
        return self.answer.read(_at(alone, begins))

    def _pieces(self, word: bytes, index: int) -> list[int]:
        prefix = self.tokenizer.word_prefix.encode() if index else b""
        (found,) = self.tokenizer.tokenize([prefix + word]).to_list()
        unknown = self.tokenizer.special.unknown
        return found[: self.longest] or ([] if unknown is None else [unknown])

    def _rows(self, pieces: list[list[int]]) -> list[tuple[np.ndarray, list[int]]]:
        """Returns rows of token ids, each with the positions of word beginnings."""
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
        row, begins = [], []
        for word in words:
            begins.append(self.frame.starts + len(row))
            row += word
        return frame_texts(row, frame=self.frame), begins


def _at(
    outputs: Mapping[str, np.ndarray], positions: list[int]
) -> dict[str, np.ndarray]:
    """Selects the outputs at the given positions of a row."""
    indices = np.array(positions, np.int64)
    return {name: value[indices] for name, value in outputs.items()}
