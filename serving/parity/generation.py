"""Parity of exported generative models with Keras.

A generated token is correct if no other token is more probable in Keras at this
position, given the preceding tokens. As a result, a choice between equally probable
tokens, which may depend on rounding, does not count as a difference, and neither do the
tokens generated after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.configs.base.templates import fill_template
from transbeam.configs.loader.compatibility import decoder_length
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.objective import TextPairObjective
from transbeam.configs.schema.objectives.traits import input_names, text_templates
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
from transbeam.serving.parity.base.parity_texts import written_texts
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.runtimes.tflite_generator import PhoneWriter, TFLiteGeneration
from transbeam.serving.signatures.generation.sampling_params import (
    DEFAULTS,
    SPECS,
    STOP,
)

NEW_TOKENS = 12
_SAMPLING_PARAMS = {
    name: DEFAULTS[name] for name in (str(s.name) for s in [*SPECS[1:], STOP])
}
_SEARCH = {"num_beams": 3, "length_penalty": 1.0}


@dataclass(frozen=True)
class ExpectedGeneration:
    """The reference inputs of one text.

    Attributes:
        texts: The input texts, one for each input of `serving_default`.
        ids: int32 (T,), the token ids that the signature `tokenize` should return.
        read: int32 (T',), the encoder's input.
        before: int32 (P,), the decoder's prompt.
    """

    texts: tuple[str, ...]
    ids: np.ndarray
    read: np.ndarray
    before: np.ndarray


class GenerationParityChecker:
    """Checks generated texts and scores; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: Tuples of input texts; latency is measured on the first tuple.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        self.trained = trained
        self.tolerance = trained.config.export.tolerance
        # A decoder-only model continues the text, in the same row.
        self.goes_on = trained.config.model.kind == "decoder"
        longest = trained.config.model.max_sequence_length
        self.number = min(NEW_TOKENS, longest // 2)
        self.expected = [self._expect(one) for one in texts]
        # Prompts have to leave room for new tokens.
        self.prompts = [self._expect(self._short(one)) for one in texts]
        # All formats should generate the same tokens: Keras scores them once.
        self._known_logits: dict[tuple[bytes, ...], np.ndarray] = {}
        self._known_scores: dict[tuple[str, ...], tuple[float, int]] = {}

    @classmethod
    def from_run(
        cls, trained: TrainedRun, run_folder: Path
    ) -> "GenerationParityChecker":
        """Returns a parity checker for the texts that `written_texts` returns."""
        return cls(trained, written_texts(trained, run_folder))

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        columns = self._columns(self.expected)
        tokens = dict(ask("tokenize", columns))
        ids = [one.ids for one in self.expected]
        return [
            tokens_row(form, tokens, ids),
            *self.written_rows(form, ask),
            *self._search_rows(form, ask),
            self._score_row(form, ask),
        ]

    def written_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        """Checks the outputs of `generate`."""
        columns = self._columns(self.prompts)
        answers = ask(
            "generate", {**columns, **self._parameter_columns(_SAMPLING_PARAMS)}
        )
        lost, badly_ended, other_text = 0.0, 0, 0
        for row, one in enumerate(self.prompts):
            length = answers["length"][row]
            new = answers["token_ids"][row, :length]
            scores = log_softmax(self._logits(one, new))  # (N, V)
            chosen = scores[np.arange(len(new)), new]
            lost = max(lost, largest(scores.max(axis=1) - chosen))
            badly_ended += self._is_badly_ended(new, bool(answers["finished"][row]))
            other_text += answers["generated_text"][row] != self._text(one, new)
        limit = self.tolerance.saved_model
        return [
            at_most(form, "log-probability below the best token's", lost, limit),
            at_most(form, "ends, texts that differ", badly_ended, 0),
            at_most(form, "texts of the same tokens that differ", other_text, 0),
        ]

    def _search_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        """Checks beam search: scores must match, the best hypothesis may differ."""
        columns = self._columns(self.prompts)
        answers = ask("search", {**columns, **self._parameter_columns(_SEARCH)})
        off, badly_ended = 0.0, 0
        for row, one in enumerate(self.prompts):
            new = answers["token_ids"][row, : answers["length"][row]]
            scores = log_softmax(self._logits(one, new))
            expected = scores[np.arange(len(new)), new].mean()
            off = max(off, abs(float(answers["score"][row] - expected)))
            badly_ended += self._is_badly_ended(new, bool(answers["finished"][row]))
        limit = self.tolerance.saved_model
        return [
            at_most(form, "score of a searched text, largest difference", off, limit),
            at_most(form, "ends of searched texts that differ", badly_ended, 0),
        ]

    def _score_row(self, form: str, ask: AskTexts) -> ParityCheck:
        columns = self._columns(self.expected)
        off, limit = 0.0, self.tolerance.saved_model
        is_whole = isinstance(self.trained.config.objective, CausalConfig)
        target = {} if is_whole else {"target_text": self._targets()}
        found = ask("score", {**columns, **target})
        for row, one in enumerate(self.expected):
            expected, count = self._score(one, *(t[row] for t in target.values()))
            off = max(off, abs(found["log_likelihood"][row] - expected) / count)
            wrong_count = found["num_tokens"][row] != count
            off = max(off, float("inf") if wrong_count else 0.0)
        what = "log-likelihood a token, largest difference"
        return at_most(form, what, off, limit)

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        writer, limits = PhoneWriter(model), self.tolerance
        answers, references = [], []
        lost, badly_ended = 0.0, 0
        for given in self.prompts:
            one, written = self._written_on_phone(writer, given)
            new = written.token_ids
            scores = log_softmax(self._logits(one, new))  # (N, V)
            chosen = scores[np.arange(len(new)), new]
            lost = max(lost, largest(scores.max(axis=1) - chosen))
            ended = int(new[-1]) in self.trained.tokenizer.special.ends
            badly_ended += len(new) != self._phone_number(writer) and not ended
            answers.append(log_softmax(written.logits))
            references.append(scores)
        answer, reference = np.concatenate(answers), np.concatenate(references)
        rows = [phone_row(form, "log-probability", answer - reference, variant, limits)]
        if variant in IN_FLOATS:
            check = "log-probability below the best token's"
            rows.append(at_most(form, check, lost, getattr(limits, variant)))
        else:
            check = "token, share equal"
            compared = answer, reference
            rows.append(agreement_row(form, check, *compared, variant, limits))
        return [*rows, at_most(form, "ends, texts that differ", badly_ended, 0)]

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", self._columns(self.prompts[:1]))

    def ask_phone_once(self, model: TFLiteRunner) -> TFLiteGeneration:
        return self._written_on_phone(PhoneWriter(model), self.prompts[0])[1]

    def _phone_number(self, writer: PhoneWriter) -> int:
        """Returns the number of new tokens that fit into a TFLite file's cache."""
        return min(self.number, writer.slots // 2)

    def _written_on_phone(
        self, writer: PhoneWriter, one: ExpectedGeneration
    ) -> tuple[ExpectedGeneration, TFLiteGeneration]:
        """Generates with a TFLite file, from the last prompt ids that fit its cache."""
        number = self._phone_number(writer)
        room = min(writer.longest_prompt, writer.slots - number)
        one = replace(one, before=one.before[-room:])
        written = writer.write(
            one.before,
            number,
            source=None if self.goes_on else one.read,
            stop_token_ids=self.trained.tokenizer.special.ends,
        )
        return one, written

    def _expect(self, texts: tuple[str, ...]) -> ExpectedGeneration:
        trained, special = self.trained, self.trained.tokenizer.special
        text, objective = texts[0], trained.config.objective
        if isinstance(objective, TextPairObjective):
            named = dict(zip(input_names(objective), texts, strict=True))
            text = fill_template(text_templates(objective)[0], named)
        ids = self._tokens(text)
        if not self.goes_on:
            room = trained.config.data.sequence_length - 1
            ids = np.array([*ids[:room], special.end], np.int32)
            return ExpectedGeneration(texts, ids, ids, np.array([self._go()], np.int32))
        begin = [special.begin] if special.begin not in (None, special.end) else []
        ids = np.array([*begin, *ids] or [special.end], np.int32)
        return ExpectedGeneration(texts, ids, ids, ids)

    def _short(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Cuts a prompt that leaves no room for new tokens."""
        if not self.goes_on:
            return texts
        (text,) = texts
        room = self.trained.config.model.max_sequence_length - self.number
        while (length := len(self._expect((text,)).ids)) > room:
            text = text[: min(len(text) * room // length, len(text) - 1)]
        return (text,)

    def _logits(self, one: ExpectedGeneration, new: np.ndarray) -> np.ndarray:
        """Returns Keras's logits (N, V) at the position of each new token."""
        rows = one.read, one.before, new
        key = tuple(row.astype(np.int32).tobytes() for row in rows)
        if key not in self._known_logits:
            row = np.concatenate([one.before, new])
            self._known_logits[key] = self._logits_of(one, row, len(one.before))
        return self._known_logits[key]

    def _logits_of(
        self, one: ExpectedGeneration, row: np.ndarray, given: int
    ) -> np.ndarray:
        """Returns Keras's logits (N, V) for a decoder row's ids from `given` on."""
        inputs = self._inputs(one, row[:-1], given)
        outputs: Any = self.trained.model(inputs, training=False)
        return np.asarray(outputs["logits"])[0, given - 1 :]

    def _inputs(
        self, one: ExpectedGeneration, row: np.ndarray, given: int
    ) -> dict[str, np.ndarray]:
        """Returns Keras's inputs for a decoder row with `given` prompt tokens."""
        if self.goes_on:
            return alone("", row)
        return {**alone("encoder_", one.read), **alone("decoder_", row)}

    def _score(self, one: ExpectedGeneration, target: str = "") -> tuple[float, int]:
        """Returns the log-likelihood of a text or target, and its number of tokens."""
        key = (*one.texts, target)
        if key not in self._known_scores:
            row, given = self._scored(one, target)
            scores = log_softmax(self._logits_of(one, row, given))
            chosen = scores[np.arange(len(scores)), row[given:]]
            self._known_scores[key] = float(chosen.sum()), len(chosen)
        return self._known_scores[key]

    def _scored(self, one: ExpectedGeneration, target: str) -> tuple[np.ndarray, int]:
        """Returns ids for `score`, and the number of leading ids not to score."""
        config, end = self.trained.config, self.trained.tokenizer.special.end
        longest = config.model.max_sequence_length
        if self.goes_on:
            return np.array([*one.ids, end])[:longest], 1
        longest = min(longest, decoder_length(config))
        tokens = self._tokens(target)[: longest - 1]
        return np.array([self._go(), *tokens, end]), 1

    def _is_badly_ended(self, new: np.ndarray, finished: bool) -> bool:
        ends = np.flatnonzero(np.isin(new, self.trained.tokenizer.special.ends))
        if len(ends):
            return not finished or int(ends[0]) != len(new) - 1
        return finished or len(new) != self.number

    def _text(self, one: ExpectedGeneration, new: np.ndarray) -> bytes:
        """Returns the text that the new tokens add to the text of the prompt."""
        before = one.before if self.goes_on else np.zeros(0, np.int32)
        new = new[~np.isin(new, self.trained.tokenizer.special.stop)]
        both = [self._read(ids) for ids in (before, np.concatenate([before, new]))]
        rest = both[1][len(both[0]) :]
        return rest.decode("utf-8", "replace").encode()

    def _read(self, ids: np.ndarray) -> bytes:
        special = self.trained.tokenizer.special
        silent = (special.pad, special.begin, special.end)
        shown = [[int(piece) for piece in ids if piece not in silent]]
        ragged = tf.ragged.constant(shown, dtype=tf.int32, ragged_rank=1)
        return self.trained.tokenizer.detokenize(ragged).numpy()[0]

    def _tokens(self, text: str) -> list[int]:
        return self.trained.tokenizer.tokenize([text]).to_list()[0]

    def _go(self) -> int:
        special = self.trained.tokenizer.special
        return special.pad if special.begin is None else special.begin

    def _targets(self) -> list[str]:
        """Returns targets to score: the first 60 characters of each text."""
        return [one.texts[0][:60] for one in self.expected]

    def _parameter_columns(self, other: Mapping[str, Any]) -> dict[str, Any]:
        params = {"max_new_tokens": self.number, **other}
        return {name: [value] * self.size for name, value in params.items()}

    def _columns(self, expected: Sequence[ExpectedGeneration]) -> dict[str, list[str]]:
        columns = zip(*(one.texts for one in expected), strict=True)
        names = input_names(self.trained.config.objective)
        return {n: list(c) for n, c in zip(names, columns, strict=True)}


def alone(prefix: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns model inputs for a single row of ids."""
    row = ids[np.newaxis].astype(np.int32)
    return {f"{prefix}token_ids": row, f"{prefix}padding_mask": np.ones_like(row)}
