"""The calibration of a run's model: numbers fitted to its validation predictions.

RUN/evaluation/calibration.json   what `transbeam evaluate` fitted
calibration.json beside an export what the export applies

Fitted numbers belong to the weights that made the predictions, so the file has the
SHA-256 of the weights file, and numbers of other weights are never used.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from transbeam.configs.base.atomic_files import write_json, writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.model_files import WEIGHTS, training_stage

CALIBRATION = "calibration.json"
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Numbers fitted to a model's predictions.

    Attributes:
        weights_sha256: SHA-256 of the file with the model's weights.
        records_sha256: Fingerprint of the validation records.
        temperature: The number by which logits are divided; 1 if none reduces the
            negative log-likelihood, None if the model has no classes.
        thresholds: By label, the smallest probability at which the label is assigned,
            for models with any number of labels per text. Probabilities are those at
            temperature 1; in an export's file, those that the export returns.
        no_answer_threshold: A question has no answer if the score of having none
            exceeds the score of the best answer by more than this; for question
            answering with unanswerable questions.
    """

    weights_sha256: str
    records_sha256: str
    temperature: float | None = None
    thresholds: Mapping[str, float] | None = None
    no_answer_threshold: float | None = None


def run_calibration(run_folder: Path) -> Path:
    """Returns the path of the calibration that an evaluation of a run has fitted."""
    return run_folder / "evaluation" / CALIBRATION


def is_calibrated(run_folder: Path) -> bool:
    """Returns whether a run has a calibration of the weights that it exports.

    Raises:
        ArtifactError: The calibration file is damaged.
    """
    weights = training_stage(run_folder).path / WEIGHTS
    path = run_calibration(run_folder)
    calibration = read_calibration(path, "Remove it, and it is made again")
    if calibration is None or not weights.is_file():
        return False
    return calibration.weights_sha256 == hash_file(weights)


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration file.

    Raises:
        ArtifactError: The file cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    known = {name: x for name, x in asdict(calibration).items() if x is not None}
    write_json(path, {"format": _FORMAT, "version": VERSION, **known})


def read_calibration(path: Path, remedy: str) -> Calibration | None:
    """Reads a calibration file; None if there is none.

    Args:
        path: The file.
        remedy: What to do if the file is damaged, for the error message.

    Raises:
        ArtifactError: The file is damaged, or of a later version.

    Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "calibration.json")
    ...     write_calibration(
    ...         path, Calibration(weights_sha256="a", records_sha256="b", temperature=2)
    ...     )
    ...     read_calibration(path, "").temperature
    2.0
    """
    try:
        found: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: unreadable ({error}). {remedy}") from None
    calibration = None
    if isinstance(found, dict):
        calibration = _parsed(cast("dict[str, Any]", found))
    if calibration is not None:
        return calibration
    raise ArtifactError(
        f"{path}: is no calibration in format {_FORMAT}, which this version reads. "
        f"{remedy}"
    )


def _parsed(found: Mapping[str, Any]) -> Calibration | None:
    """Returns a calibration if every value is what it has to be."""
    if found.get("format") != _FORMAT:
        return None
    texts = [found.get(name) for name in ("weights_sha256", "records_sha256")]
    temperature, none = found.get("temperature"), found.get("no_answer_threshold")
    thresholds = found.get("thresholds")
    numbers = [x for x in (temperature, none) if x is not None]
    shares: list[Any] = []
    if isinstance(thresholds, dict):
        shares = [*cast("dict[str, Any]", thresholds).values()]
    elif thresholds is not None:
        return None
    if not all(isinstance(text, str) for text in texts):
        return None
    if not all(_is_finite(number) for number in [*numbers, *shares]):
        return None
    if not all(0 <= share <= 1 for share in shares):
        return None
    if temperature is not None and temperature <= 0:
        return None
    return Calibration(
        weights_sha256=str(texts[0]),
        records_sha256=str(texts[1]),
        temperature=None if temperature is None else float(temperature),
        thresholds=cast("Mapping[str, float] | None", thresholds),
        no_answer_threshold=None if none is None else float(none),
    )


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
