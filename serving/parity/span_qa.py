"""Parity of exported extractive question answering models with Keras."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.model.base.answer_spans import best_spans
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.base.text_frame import encoder_frame
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    at_most,
    log_softmax,
    phone_row,
    tokens_row,
)
from transbeam.serving.parity.base.parity_texts import labelled_texts
from transbeam.serving.runtimes.saved_model import AskTexts

_CHARACTERS_PER_TOKEN = 8  # few texts have as many, so cut texts have several windows


@dataclass(frozen=True)
class ParityWindow:
    """A window of a context, with Keras's logits.

    Attributes:
        inputs: int32 (T,) each.
        begin: The position at which the context begins.
        start: float64 (T,), the start logits.
        end: float64 (T,), the end logits.
    """

    inputs: dict[str, np.ndarray]
    begin: int
    start: np.ndarray
    end: np.ndarray

    def best(self, longest: int) -> float:
        """Returns the highest answer score; minus infinity if there is no answer."""
        positions = np.arange(len(self.start))
        inside = (positions >= self.begin) & (positions < len(positions) - 1)
        _, _, score = best_spans(
            self.start[None], self.end[None], inside[None], longest
        )
        return float(score[0])

    @property
    def none(self) -> float:
        """The no-answer score."""
        return float(self.start[0] + self.end[0])


@dataclass(frozen=True)
class ExpectedAnswers:
    """The reference outputs for one question.

    Attributes:
        texts: Context and question.
        ids: int32 (T,), the token ids of the context.
        windows: At least one.
    """

    texts: tuple[str, ...]
    ids: np.ndarray
    windows: list[ParityWindow]


class SpanQAParityChecker:
    """Checks extractive question answering; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: Contexts with their questions; latency is measured on the first pair.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        objective = trained.config.objective
        assert isinstance(objective, SpanQAConfig)
        self.objective = objective
        self.trained = trained
        self.tolerance = trained.config.export.tolerance
        self.longest = trained.config.evaluation.max_answer_length
        self.expected = [self._expect(one) for one in texts]

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "SpanQAParityChecker":
        """Returns a checker for `labelled_texts`, truncated to a few windows each."""
        most = _CHARACTERS_PER_TOKEN * trained.config.model.max_sequence_length
        pairs = labelled_texts(trained, run_folder)
        return cls(trained, [tuple(text[:most] for text in pair) for pair in pairs])

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        columns = self._columns(self.expected)
        tokens = dict(ask("tokenize", columns))
        answers = ask("serving_default", columns)
        off = none_off = misplaced = undecided = 0.0
        for row, one in enumerate(self.expected):
            found = {name: column[row] for name, column in answers.items()}
            best = max(window.best(self.longest) for window in one.windows)
            least = min(window.none for window in one.windows)
            if np.isfinite(best):
                off = max(off, abs(found["score"] - best))
            none_off = max(none_off, abs(found["no_answer_score"] - least))
            span = one.texts[0][found["start"] : found["end"]]
            misplaced += span.encode() != found["answer"]
            if one.texts[0][:1].isascii():
                undecided += self._is_otherwise(found["end"], least - best)
        limit = self.tolerance.saved_model
        decisions = []
        if self.trained.calibration.no_answer_threshold is not None:
            what = "answers that are not as the threshold says"
            decisions.append(at_most(form, what, undecided, 0))
        return [
            tokens_row(form, tokens, [one.ids for one in self.expected]),
            at_most(form, "score of the answer, largest difference", off, limit),
            at_most(form, "score of no answer, largest difference", none_off, limit),
            at_most(form, "answers that do not stand at their places", misplaced, 0),
            *decisions,
        ]

    def _is_otherwise(self, end: int, difference: float) -> bool:
        """Returns whether an export decides otherwise about having an answer.

        Args:
            end: The end of the export's answer; 0 for no answer. Answers end later,
                except one that is a part of the bytes of the context's first character.
            difference: Keras's no-answer score minus the score of its best answer.
        """
        threshold = self.trained.calibration.no_answer_threshold
        # Two scores may each be off by the tolerance.
        near = 2 * self.tolerance.saved_model
        if threshold is None or abs(difference - threshold) <= near:
            return False
        return (end == 0) != (difference > threshold)

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        off = []
        for one in self.expected:
            for window in one.windows[:1]:
                answer = model.ask("read_ids", **window.inputs)
                size = len(window.start)
                for name, own in (("start", window.start), ("end", window.end)):
                    found = answer[f"{name}_logits"][:size]
                    off.append(log_softmax(found) - log_softmax(own))
        what = "log-probability"
        return [phone_row(form, what, np.concatenate(off), variant, self.tolerance)]

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", self._columns(self.expected[:1]))

    def ask_phone_once(self, model: TFLiteRunner) -> Any:
        return model.ask("read_ids", **self.expected[0].windows[0].inputs)

    def _expect(self, texts: tuple[str, ...]) -> ExpectedAnswers:
        config, special = self.trained.config, self.trained.tokenizer.special
        context, question = self.trained.tokenizer.tokenize(texts).to_list()
        question = question[: self.objective.max_question_length]
        longest = min(config.data.sequence_length, config.model.max_sequence_length)
        room = longest - 3 - len(question)
        step = min(self.objective.stride, room)
        windows = [context[:room]]
        start = 0
        while start + room < len(context):
            start += step
            windows.append(context[start : start + room])
        frame = encoder_frame(special)
        rows = [frame_texts(question, window, frame=frame) for window in windows]
        asked = [self._ask(row, len(question) + 2) for row in rows]
        return ExpectedAnswers(texts, np.array(context, np.int32), asked)

    def _ask(self, token_ids: np.ndarray, begin: int) -> ParityWindow:
        rows = {
            "token_ids": token_ids,
            "padding_mask": np.ones_like(token_ids),
            "segment_ids": (np.arange(len(token_ids)) >= begin).astype(np.int32),
        }
        inputs = {n: row for n, row in rows.items() if n in self.trained.model.input}
        outputs: Any = self.trained.model(
            {name: row[np.newaxis] for name, row in inputs.items()}, training=False
        )
        start, end = (
            np.asarray(outputs[name], np.float64)[0]
            for name in ("start_logits", "end_logits")
        )
        return ParityWindow(inputs, begin, start, end)

    def _columns(self, expected: Sequence[ExpectedAnswers]) -> dict[str, list[str]]:
        columns = zip(*(one.texts for one in expected), strict=True)
        names = input_names(self.trained.config.objective)
        return {n: list(c) for n, c in zip(names, columns, strict=True)}
