"""Parity checks, each a measured value with its limit: rows of a parity table."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transbeam.configs.schema.export import ToleranceConfig

# The smallest normal float32: smaller probabilities are not exact.
_TINY = np.finfo(np.float32).tiny
# Variants that compute in floats; the others have integer weights.
IN_FLOATS = frozenset({"float32", "float16"})


@dataclass(frozen=True)
class ParityCheck:
    """One parity check.

    Attributes:
        form: The exported file and its runtime, such as `TFLite int8, XNNPACK`.
        check: A description of the compared quantity.
        value: The measured value.
        limit: The allowed maximum of the value; for shares, the allowed minimum.
        passed: Whether the value is within the limit.
    """

    form: str
    check: str
    value: float
    limit: float
    passed: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(form: str, check: str, value: float, limit: float) -> ParityCheck:
    """Returns a check that passes if a value is no larger than its limit."""
    # Comparisons with NaN are false, so outputs with NaN fail.
    return ParityCheck(form, check, float(value), float(limit), bool(value <= limit))


def phone_row(
    form: str,
    what: str,
    differences: np.ndarray,
    variant: str,
    tolerance: ToleranceConfig,
) -> ParityCheck:
    """Checks differences from Keras: the largest for float variants, RMS for others."""
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
    """Checks how often a variant's top prediction agrees with Keras's, up to ties.

    Args:
        form: As in `ParityCheck`.
        check: As in `ParityCheck`.
        answer: Log-probabilities (N, C).
        reference: Keras's log-probabilities, in the same shape.
        variant: The TFLite variant; log-probabilities that differ by at most its
            tolerance count as equal.
        tolerance: Of the export.
    """
    share = agreement(answer, reference, tie=getattr(tolerance, variant))
    return share_row(form, check, share, tolerance)


def share_row(
    form: str, check: str, share: float, tolerance: ToleranceConfig
) -> ParityCheck:
    """Checks the share of a variant's predictions that agree with Keras's."""
    smallest = tolerance.dynamic_int8_agreement
    return ParityCheck(form, check, share, smallest, share >= smallest)


def agreement(answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
    """Computes the share of rows whose top prediction is the reference's, up to ties.

    Args:
        answer: Log-probabilities (N, C).
        reference: The same.
        tie: A tolerance in nats: a prediction counts as equal if its reference
            log-probability is at most `tie` below the highest reference log-probability
            of the row.
    """
    guesses = answer.argmax(axis=1)
    lost = reference.max(axis=1) - reference[np.arange(len(guesses)), guesses]
    return float(np.mean(lost <= tie))


def first_choice(answer: np.ndarray) -> np.ndarray:
    """Returns each row's most probable class, or -1 if the row contains NaN."""
    # `argmax` returns the index of the first NaN, which might be the right class.
    return np.where(np.isnan(answer).any(axis=-1), -1, np.argmax(answer, axis=-1))


def probabilities_off(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Returns differences of log-probabilities, clipped to float32's normal range.

    Args:
        found: Probabilities (N, C).
        reference: Log-probabilities (N, C).
    """
    logs = np.log(np.maximum(found, _TINY), dtype=np.float64)
    return logs - np.maximum(reference, np.log(_TINY))


def tokens_row(
    form: str, answers: dict[str, np.ndarray], expected: list[np.ndarray]
) -> ParityCheck:
    """Counts the texts whose ids differ from those of the training tokenizer.

    Args:
        form: As in `ParityCheck`.
        answers: Outputs of the signature `tokenize`.
        expected: The expected token ids of each text, int32 (T,).
    """
    rows = zip(answers["token_ids"], answers["length"], expected, strict=True)
    different = sum(not np.array_equal(row[:length], ids) for row, length, ids in rows)
    return at_most(form, "token ids, texts that differ", different, 0)


def largest(differences: np.ndarray) -> float:
    """Returns the largest absolute value."""
    return float(np.abs(differences).max(initial=0.0))


def rms(differences: np.ndarray) -> float:
    """Returns the root mean square."""
    return float(np.sqrt(np.mean(np.square(differences, dtype=np.float64))))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Computes log-probabilities in nats along the last axis, in float64.

    Example:
    >>> np.exp(log_softmax(np.array([0.0, np.log(3.0)]))).round(6)
    array([0.25, 0.75])
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
