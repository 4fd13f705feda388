"""Parity of exported masked language models with Keras."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.base.text_frame import encoder_frame
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.parity.base.parity_checks import (
    IN_FLOATS,
    ParityCheck,
    agreement_row,
    at_most,
    largest,
    log_softmax,
    phone_row,
    share_row,
    tokens_row,
)
from transbeam.serving.parity.base.parity_texts import masked_texts, row_inputs
from transbeam.serving.parity.embedding import KerasEmbedder
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.text_ops.mask_tokens import answer_pieces, tokenize_with_masks

_ITERATIONS = 3
_REFINED = f"fill after {_ITERATIONS} iterations, share equal"
# The smallest normal float32: smaller probabilities are not exact.
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class ExpectedFills:
    """The reference outputs for one text.

    Attributes:
        text: The text.
        token_ids: int32 (T,), `[CLS] … [SEP]`, with mask tokens.
        positions: int32 (M,), the positions of the masks.
        log_probabilities: float64 (M, V), the log-probabilities at the masks, in nats.
        refined: int (M,), the tokens that fill the masks after several iterations.
        plain_ids: int32 (T',), the ids of the same text with `[MASK]` as ordinary text.
        vector_ids: int32 (T'',), the ids from which the embedding is computed.
        embedding: float32 (D,), the embedding of the text with `vector_ids`.
    """

    text: str
    token_ids: np.ndarray
    positions: np.ndarray
    log_probabilities: np.ndarray
    refined: np.ndarray
    plain_ids: np.ndarray
    vector_ids: np.ndarray
    embedding: np.ndarray


class MaskedParityChecker:
    """Checks mask filling and embeddings; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: Texts, at least one with a `[MASK]`; latency is measured on the first
            text.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[str]):
        self.tolerance = trained.config.export.tolerance
        self.pieces = answer_pieces(trained.tokenizer)
        reader = _MaskedReader(trained)
        self.expected = [reader.expect(text) for text in texts]

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "MaskedParityChecker":
        """Returns a parity checker for the texts that `masked_texts` returns."""
        return cls(trained, masked_texts(trained, run_folder))

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        texts = {"text": [one.text for one in self.expected]}
        limit = self.tolerance.saved_model
        ids = [one.plain_ids for one in self.expected]
        fills = _fills_difference(
            ask("serving_default", texts), self.pieces, self.expected
        )
        rounds: Any = [_ITERATIONS] * self.size
        refined = ask("refine", {**texts, "iterations": rounds})
        embedding = ask("embed", texts)["embedding"]
        vectors = embedding - [one.embedding for one in self.expected]
        return [
            tokens_row(form, dict(ask("tokenize", texts)), ids),
            at_most(form, "log-probability, largest difference", fills, limit),
            share_row(form, _REFINED, self._share_refined(refined), self.tolerance),
            at_most(form, "vector entry, largest difference", largest(vectors), limit),
        ]

    def _share_refined(self, answers: Mapping[str, np.ndarray]) -> float:
        """Returns the share of masks with the fill of Keras's iterations."""
        equal = [
            fill == self.pieces[number]
            for fills, one in zip(answers["fills"], self.expected, strict=True)
            for (fill,), number in zip(fills, one.refined, strict=False)
        ]
        return float(np.mean(equal)) if equal else 1.0

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        answers, references, differences = [], [], []
        for one in self.expected:
            found = log_softmax(_phone_logits(model, one))
            answers.append(found)
            references.append(one.log_probabilities[: len(found)])
            vector = model.ask("embed", **row_inputs(one.vector_ids))["embedding"]
            differences.append(vector - one.embedding)
        answer, reference = np.concatenate(answers), np.concatenate(references)
        vectors = np.stack(differences)
        off, limits = answer - reference, self.tolerance
        rows = [
            phone_row(form, "log-probability", off, variant, limits),
            phone_row(form, "vector entry", vectors, variant, limits),
        ]
        if variant not in IN_FLOATS:
            what = "first guess, share equal"
            rows.append(agreement_row(form, what, answer, reference, variant, limits))
        return rows

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", {"text": [self.expected[0].text]})

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return _phone_logits(model, self.expected[0])


class _MaskedReader:
    """Runs the Keras model on each text separately."""

    def __init__(self, trained: TrainedRun):
        self.tokenizer = trained.tokenizer
        self.model, self.embedder = trained.model, KerasEmbedder(trained)
        self.room = trained.config.model.max_sequence_length - 2
        self.allowed = trained.tokenizer.ordinary_ids

    def expect(self, text: str) -> ExpectedFills:
        token_ids = self._framed(
            tokenize_with_masks(self.tokenizer, tf.constant([text]))
        )
        plain_ids = self._framed(self.tokenizer.tokenize([text]))
        is_mask = token_ids == self.tokenizer.special.mask
        positions = np.flatnonzero(is_mask).astype(np.int32)
        vector_ids = self.embedder.ids(text)
        return ExpectedFills(
            text=text,
            token_ids=token_ids,
            positions=positions,
            log_probabilities=self._log_probabilities(token_ids, positions),
            refined=self._refine(token_ids, positions),
            plain_ids=plain_ids,
            vector_ids=vector_ids,
            embedding=self.embedder.vector(vector_ids),
        )

    def _log_probabilities(
        self, token_ids: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        inputs = {**row_inputs(token_ids), "masked_positions": positions}
        logits = self.model(_batch(inputs), training=False)["logits"]
        return log_softmax(np.asarray(logits)[0])

    def _refine(self, token_ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Fills the masks in several iterations, a text at a time."""
        filled, count = token_ids.copy(), len(positions)
        scores = np.zeros(count)
        for step in range(_ITERATIONS):
            again = np.argsort(scores, kind="stable")
            again = again[: count * (_ITERATIONS - step) // _ITERATIONS]
            filled[positions[again]] = self.tokenizer.special.mask
            found = self._log_probabilities(filled, positions)[again]
            best = self.allowed[found[:, self.allowed].argmax(axis=1)]
            filled[positions[again]] = best
            scores[again] = found[np.arange(len(again)), best]
        return filled[positions]

    def _framed(self, tokens: tf.RaggedTensor) -> np.ndarray:
        """Returns `[CLS] … [SEP]` of one text, cut to the model's maximum length."""
        content = tokens.numpy()[0][: self.room]
        return frame_texts(content, frame=encoder_frame(self.tokenizer.special))


def _batch(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: row[np.newaxis] for name, row in inputs.items()}


def _phone_logits(model: TFLiteRunner, one: ExpectedFills) -> np.ndarray:
    """Returns logits, float32 (M', V), for as many masks as the file supports."""
    positions = one.positions[: model.size("fill_mask", "masked_positions")]
    inputs = {**row_inputs(one.token_ids), "masked_positions": positions}
    return model.ask("fill_mask", **inputs)["logits"][: len(positions)]


def _fills_difference(
    answers: Mapping[str, np.ndarray],
    pieces: Sequence[bytes],
    expected: Sequence[ExpectedFills],
) -> float:
    """Returns the largest difference of predictions and scores from Keras's, in nats.

    Each predicted token is looked up in Keras's log-probabilities, and each row of
    scores is compared with Keras's highest scores: only tokens of equal probability may
    be reordered.
    """
    ids_of: dict[bytes, list[int]] = {}
    for number, piece in enumerate(pieces):
        ids_of.setdefault(piece, []).append(number)
    differences = [0.0]
    for fills, scores, one in zip(
        answers["fills"], answers["scores"], expected, strict=True
    ):
        masks, guesses = len(one.positions), fills.shape[1]
        if (fills[:masks] == b"").any() or (fills[masks:] != b"").any():
            return math.inf  # the number of outputs differs from that of masks
        found = np.log(np.maximum(scores[:masks], _TINY), dtype=np.float64)
        reference = np.maximum(one.log_probabilities, np.log(_TINY))
        looked_up = [
            # Pieces with incomplete characters may have the same text.
            min(reference[mask, ids_of[piece]], key=lambda found: abs(found - score))
            for mask, row in enumerate(zip(fills, found, strict=False))
            for piece, score in zip(*row, strict=True)
        ]
        best = -np.sort(-reference, axis=-1)[:, :guesses]
        differences += [largest(found.ravel() - looked_up), largest(found - best)]
    return float(np.max(differences))  # unlike `max`, it does not lose a NaN
