"""Comparisons, each a row of the table that an export leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transbeam.configs.schema.export import ToleranceConfig

# A float32 cannot say a smaller probability exactly.
_TINY = np.finfo(np.float32).tiny
# Variants whose answers differ by rounding alone; the others have whole numbers.
IN_FLOATS = frozenset({"float32", "float16"})


@dataclass(frozen=True)
class ParityCheck:
    """One comparison.

    Attributes:
        form: Which file, and how it was run.
        check: What was compared.
        value: What was found.
        limit: What is allowed: the largest value, or the smallest for a share.
        passed: Whether it is.
    """

    form: str
    check: str
    value: float
    limit: float
    passed: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(form: str, check: str, value: float, limit: float) -> ParityCheck:
    """A row that passes if a value is no larger than its limit."""
    # A NaN compares as false, so an answer that is none fails.
    return ParityCheck(form, check, float(value), float(limit), bool(value <= limit))


def phone_row(
    form: str,
    what: str,
    differences: np.ndarray,
    variant: str,
    tolerance: ToleranceConfig,
) -> ParityCheck:
    """How far a TFLite variant is from Keras: floats at most, integers on the whole."""
    limit = getattr(tolerance, variant)
    if variant in IN_FLOATS:
        value, kind = largest(differences), "largest"
    else:
        value, kind = rms(differences), "RMS"
    return at_most(form, f"{what}, {kind} difference", value, limit)


def agreement_row(
    form: str,
    check: str,
    answer: np.ndarray,
    reference: np.ndarray,
    variant: str,
    tolerance: ToleranceConfig,
) -> ParityCheck:
    """How often a variant's first choice is Keras's, or as good to it.

    Args:
        form: As in `ParityCheck`.
        check: As in `ParityCheck`.
        answer: Log-probabilities (N, C).
        reference: The same, of Keras.
        variant: Its tolerance is what a choice may be below the best one.
        tolerance: Of the export.
    """
    share = agreement(answer, reference, tie=getattr(tolerance, variant))
    smallest = tolerance.dynamic_int8_agreement
    return ParityCheck(form, check, share, smallest, share >= smallest)


def agreement(answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
    """Share of rows whose first guess is the reference's, or as good to it.

    Args:
        answer: Log-probabilities (N, C).
        reference: The same.
        tie: What a guess may be below the reference's first, in the reference.
    """
    guesses = answer.argmax(axis=1)
    lost = reference.max(axis=1) - reference[np.arange(len(guesses)), guesses]
    return float(np.mean(lost <= tie))


def probabilities_off(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """How far log-probabilities are off, as far as a float32 can say.

    Args:
        found: Probabilities (N, C).
        reference: Log-probabilities (N, C).
    """
    logs = np.log(np.maximum(found, _TINY), dtype=np.float64)
    return logs - np.maximum(reference, np.log(_TINY))


def labels_row(
    form: str, answers: Mapping[str, np.ndarray], labels: Sequence[str]
) -> ParityCheck:
    """Whether the labels go with the scores, and the best one is said to be best."""
    names = np.array([label.encode() for label in labels], object)
    best = names[np.argmax(answers["scores"], axis=1)]
    wrong = (answers["classes"] != names).any(axis=1) | (answers["label"] != best)
    return at_most(form, "labels, answers that differ", int(wrong.sum()), 0)


def tokens_row(
    form: str, answers: dict[str, np.ndarray], expected: list[np.ndarray]
) -> ParityCheck:
    """How many texts have other ids than the training's tokenizer gives them.

    Args:
        form: As in `ParityCheck`.
        answers: Of the signature `tokenize`.
        expected: int32 (T,) of each text.
    """
    rows = zip(answers["token_ids"], answers["length"], expected, strict=True)
    different = sum(not np.array_equal(row[:length], ids) for row, length, ids in rows)
    return at_most(form, "token ids, texts that differ", different, 0)


def largest(differences: np.ndarray) -> float:
    """The largest, whatever its sign."""
    return float(np.abs(differences).max(initial=0.0))


def rms(differences: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(differences, dtype=np.float64))))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities in nats, along the last axis, computed in float64.

    Example:
    >>> np.exp(log_softmax(np.array([0.0, np.log(3.0)]))).round(6)
    array([0.25, 0.75])
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
