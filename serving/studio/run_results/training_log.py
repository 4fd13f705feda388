"""The training of a run: its result, and new lines of its log while it runs."""

import json
from pathlib import Path
from typing import Any, cast

from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.studio.run_results.checked_json import finite_numbers
from transbeam.serving.studio.run_results.result_files import existing
from transbeam.serving.studio.run_results.stage_states import (
    TRAINING,
    is_imported,
    read_result,
)

_LOG = "training/metrics.jsonl"
_UNFINISHED = "training/unfinished.json"
# Of one answer; the page asks for the rest at once.
_MOST_BYTES = 2**22


def read_training(folder: Path) -> dict[str, Any] | None:
    """Reads the result of a run's training.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.TRAINING`; None if there is no training, finished or
        not.

    Raises:
        ArtifactError: `stage.json` is damaged.
    """
    result = read_result(folder, TRAINING)
    if result is None:
        if not (folder / _UNFINISHED).is_file():
            return None
        return {"is_imported": False, "is_finished": False}
    if is_imported(result):
        return {"is_imported": True, "is_finished": True}
    names = (
        *("parameters", "trained_parameters", "steps", "skipped_steps"),
        *("seconds", "tokens", "tokens_per_second"),
    )
    return {
        "is_imported": False,
        "is_finished": True,
        **{name: result.number(name) for name in names},
        "report": existing(folder, "training/report.html"),
    }


def read_log(folder: Path, after: int = 0, file: str = "") -> dict[str, Any]:
    """Reads the lines of a training's log that were written since an earlier reading.

    A training that resumes replaces the log by one without the steps that it repeats;
    the log is then read from its beginning.

    Args:
        folder: The run's folder.
        after: `next` of the earlier answer; 0 for all lines.
        file: `file` of the earlier answer.

    Returns:
        `file`, which identifies the log; `start` and `next`, the first byte of these
        lines and of the next ones; `rows`, the numbers of each line; `damaged`, the
        number of lines that are no JSON objects; `is_whole`, false if there are more
        lines already; and `is_finished`, false while the training is not.

    Raises:
        ArtifactError: The log cannot be read.
    """
    # Before the log: a training that ends meanwhile is then asked for once more.
    is_finished = not (folder / _UNFINISHED).is_file()
    path = folder / _LOG
    try:
        with path.open("rb") as stream:
            status = path.stat()
            name = f"{status.st_dev}-{status.st_ino}"
            start = after if file == name and after <= status.st_size else 0
            stream.seek(start)
            content = stream.read(_MOST_BYTES)
    except FileNotFoundError:
        name, start, content = "", 0, b""
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from None
    # The last line may be half-written: it is read when it has its end.
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and len(content) == _MOST_BYTES:  # no log of a training
        raise ArtifactError(f"{path}: has a line of more than {_MOST_BYTES:,} bytes")
    found = [_numbers(line) for line in whole.splitlines()]
    rows = [row for row in found if row is not None]
    return {
        "file": name,
        "start": start,
        "next": start + len(whole),
        "rows": rows,
        "damaged": len(found) - len(rows),
        "is_whole": len(content) < _MOST_BYTES,
        "is_finished": is_finished,
    }


def _numbers(line: bytes) -> dict[str, float] | None:
    """Returns the finite numbers of a line; None if it has no step."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    numbers = finite_numbers(cast("dict[str, Any]", values))
    return numbers if "step" in numbers else None
