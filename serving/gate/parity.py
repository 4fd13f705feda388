"""The gate: every exported form must give Keras's answers, or nothing is published.

Keras is asked about each text alone; the exported forms get the texts in one batch, or
padded to their fixed length. So the gate holds tokenizing, padding, batching and
numbers at once.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from configs.errors import ArtifactError
from configs.export import ToleranceConfig
from serving.forms import AskTexts, PhoneModel, ask_saved_model, session_on
from serving.reference import Expected, expect, log_softmax
from serving.trained import Trained


@dataclass(frozen=True)
class Row:
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


def check_parity(
    trained: Trained,
    saved_model: Path,
    tflite: Mapping[str, Path],
    texts: Sequence[str],
) -> list[Row]:
    """Compares each exported form with Keras, as the programs that use it run it.

    Args:
        trained: The Keras model.
        saved_model: The version folder.
        tflite: The file of each variant.
        texts: At least one with a `[MASK]`.

    Returns:
        One row for each form and check; see `require_passed`.
    """
    expected = [expect(trained, text) for text in texts]
    rows: list[Row] = []
    with _failing_as_row("SavedModel in Python", rows) as form:
        ask = ask_saved_model(saved_model)
        rows += _saved_model_rows(form, ask, trained, expected)
    with (
        _failing_as_row("SavedModel in a session", rows) as form,
        session_on(saved_model) as ask,
    ):
        rows += _saved_model_rows(form, ask, trained, expected)
    for variant, file in tflite.items():
        for delegate, how in ((True, "XNNPACK"), (False, "builtin kernels")):
            with _failing_as_row(f"TFLite {variant}, {how}", rows) as form:
                model = PhoneModel(file, delegate=delegate)
                tolerance = trained.config.export.tolerance
                rows += _phone_rows(form, variant, model, expected, tolerance)
    return rows


def require_passed(rows: Sequence[Row]) -> None:
    """Stops an export that is not what Keras is.

    Raises:
        ArtifactError: A row did not pass; the message lists these.
    """
    if failed := [row for row in rows if not row.passed]:
        listed = "\n".join(
            f"  {row.form}: {row.check}: {row.value:.3g}, allowed {row.limit:.3g}"
            for row in failed
        )
        raise ArtifactError(
            f"export: {len(failed)} of {len(rows)} comparisons with the Keras model "
            f"failed:\n{listed}\nNothing was published, and an export made before is "
            "still there. If the difference is acceptable, raise export.tolerance"
        )


@contextmanager
def _failing_as_row(form: str, rows: list[Row]) -> Iterator[str]:
    """Makes a form that cannot be run one more failed comparison."""
    try:
        yield form
    except (tf.errors.OpError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        rows.append(Row(form, f"does not run ({reason})", math.inf, 0.0, False))


def _saved_model_rows(
    form: str, ask: AskTexts, trained: Trained, expected: Sequence[Expected]
) -> list[Row]:
    texts = [one.text for one in expected]
    limit = trained.config.export.tolerance.saved_model
    tokens = ask("tokenize", texts)
    different = sum(
        not np.array_equal(row[:length], one.plain_ids)
        for row, length, one in zip(
            tokens["token_ids"], tokens["length"], expected, strict=True
        )
    )
    pieces = [piece.encode() for piece in trained.tokenizer.vocabulary]
    fills = _fills_difference(ask("serving_default", texts), pieces, expected)
    vectors = ask("embed", texts)["embedding"] - [one.embedding for one in expected]
    return [
        _at_most(form, "token ids, texts that differ", different, 0),
        _at_most(form, "log-probability, largest difference", fills, limit),
        _at_most(form, "vector entry, largest difference", _largest(vectors), limit),
    ]


def _fills_difference(
    answers: Mapping[str, np.ndarray],
    pieces: Sequence[bytes],
    expected: Sequence[Expected],
) -> float:
    """How far the guesses and their scores are from Keras's, in nats.

    Each guess is looked up in Keras's answer, and the row of scores is held against
    Keras's best ones: equal probabilities may change places, nothing else may.
    """
    id_of = {piece: number for number, piece in enumerate(pieces)}
    differences = [0.0]
    for fills, scores, one in zip(
        answers["fills"], answers["scores"], expected, strict=True
    ):
        masks, guesses = len(one.positions), fills.shape[1]
        if (fills[:masks] == b"").any() or (fills[masks:] != b"").any():
            return math.inf  # not as many answers as masks
        found = np.log(np.maximum(scores[:masks], _TINY), dtype=np.float64)
        reference = np.maximum(one.log_probabilities, np.log(_TINY))
        ids = [id_of[piece] for piece in fills[:masks].ravel()]
        looked_up = reference[np.arange(masks).repeat(guesses), ids]
        best = -np.sort(-reference, axis=-1)[:, :guesses]
        differences += [_largest(found.ravel() - looked_up), _largest(found - best)]
    return float(np.max(differences))  # unlike `max`, it does not lose a NaN


# A float32 cannot say a smaller probability exactly.
_TINY = np.finfo(np.float32).tiny


def _phone_rows(
    form: str,
    variant: str,
    model: PhoneModel,
    expected: Sequence[Expected],
    tolerance: ToleranceConfig,
) -> list[Row]:
    answers, references, differences = [], [], []
    for one in expected:
        positions = one.positions[: model.masks]
        answers.append(log_softmax(model.logits(one.token_ids, positions)))
        references.append(one.log_probabilities[: model.masks])
        differences.append(model.embedding(one.plain_ids) - one.embedding)
    answer, reference = np.concatenate(answers), np.concatenate(references)
    vectors = np.stack(differences)
    if variant == "float32":
        limit, kind, measure = tolerance.float32, "largest", _largest
    else:
        limit, kind, measure = (
            tolerance.dynamic_int8,
            "RMS",
            _rms,
        )
    fills = measure(answer - reference)
    rows = [
        _at_most(form, f"log-probability, {kind} difference", fills, limit),
        _at_most(form, f"vector entry, {kind} difference", measure(vectors), limit),
    ]
    if variant == "dynamic_int8":
        share = _agreement(answer, reference, tie=limit)
        smallest = tolerance.dynamic_int8_agreement
        passed = share >= smallest
        rows.append(Row(form, "first guess, share equal", share, smallest, passed))
    return rows


def _agreement(answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
    """Share of rows whose first guess is the reference's, or as good to it.

    Args:
        answer: Log-probabilities (N, V).
        reference: The same.
        tie: What a guess may be below the reference's first, in the reference.
    """
    guesses = answer.argmax(axis=1)
    lost = reference.max(axis=1) - reference[np.arange(len(guesses)), guesses]
    return float(np.mean(lost <= tie))


def _largest(differences: np.ndarray) -> float:
    return float(np.abs(differences).max(initial=0.0))


def _rms(differences: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(differences, dtype=np.float64))))


def _at_most(form: str, check: str, value: float, limit: float) -> Row:
    # A NaN compares as false, so an answer that is none fails.
    return Row(form, check, float(value), float(limit), value <= limit)
