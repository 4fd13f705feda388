"""Parity checks of all exported formats: if one fails, nothing is published.

Keras runs on each text separately; an exported model gets all texts in one batch, or
each text padded to the model's fixed length. So tokenization, padding, batching and
numerics are checked together.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError, UserError
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.base.parity_checker import ParityChecker
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.generation import GenerationParityChecker
from transbeam.serving.parity.metrics.task_metrics import TaskMetric
from transbeam.serving.parity.server_clients import our_server, stock_server
from transbeam.serving.runtimes.saved_model import AskTexts

# A phone runs a file with the delegate or falls back to the builtin kernels; and inputs
# are resized to the length of a text, or padded.
_ON_PHONES: dict[str, dict[str, bool]] = {
    "XNNPACK": {"delegate": True, "resized": True},
    "XNNPACK, filled up": {"delegate": True, "resized": False},
    "builtin kernels": {"delegate": False, "resized": True},
}


def check_parity(
    trained: TrainedRun,
    checker: ParityChecker,
    saved_model: Path,
    in_python: AskTexts,
    tflite: Mapping[str, Path],
) -> list[ParityCheck]:
    """Compares each exported format with Keras, in the runtimes that are used for it.

    Args:
        trained: The Keras model.
        checker: The parity checker.
        saved_model: The version folder of the SavedModel.
        in_python: A function that calls the SavedModel, loaded in Python.
        tflite: The TFLite file of each variant, such as `dynamic_int8`.

    Returns:
        One `ParityCheck` for each runtime and compared quantity.
    """
    rows: list[ParityCheck] = []
    with _failing_as_row("SavedModel in Python", rows) as form:
        rows += checker.saved_model_rows(form, in_python)
        rows += attention_rows(form, in_python, trained)
    for server in (our_server, stock_server):
        # A server loads the model in C++, without the help of Python code, and runs the
        # warm-up requests before it accepts others.
        with (
            _failing_as_row(server.__name__.replace("_", " "), rows),
            server(saved_model) as served,
        ):
            for form, ask in served.asks.items():
                rows += checker.saved_model_rows(form, ask)
                rows += attention_rows(form, ask, trained)
            if isinstance(checker, GenerationParityChecker):
                for form, ask in served.streams.items():
                    rows += checker.written_rows(form, ask)
    return rows + check_phone_files(checker, tflite)


def check_phone_files(
    checker: ParityChecker, tflite: Mapping[str, Path]
) -> list[ParityCheck]:
    """Compares TFLite files with Keras."""
    rows: list[ParityCheck] = []
    for variant, file in tflite.items():
        for how, ways in _ON_PHONES.items():
            with _failing_as_row(f"TFLite {variant}, {how}", rows) as form:
                model = TFLiteRunner(
                    file, delegate=ways["delegate"], resized=ways["resized"]
                )
                if ways["resized"] or model.is_resizable:
                    rows += checker.phone_rows(form, variant, model)
    return rows


def check_metric(
    metric: TaskMetric, tflite: Mapping[str, Path]
) -> tuple[list[ParityCheck], dict[str, float]]:
    """Checks the task-metric loss of each TFLite file.

    Args:
        metric: The metric of the task.
        tflite: The TFLite file of each variant, such as `dynamic_int8`.

    Returns:
        A check for each file, and the scores of the files by variant.
    """
    rows: list[ParityCheck] = []
    found = {}
    for variant, file in tflite.items():
        with _failing_as_row(f"TFLite {variant}", rows) as form:
            found[variant], row = metric.measured(TFLiteRunner(file))
            rows.append(row(form))
    return rows, found


def require_passed(
    rows: Sequence[ParityCheck], config: RunConfig | None = None
) -> None:
    """Raises an error if a parity check failed.

    Args:
        rows: All checks.
        config: The run's configuration; if given, the error message may contain further
            advice.

    Raises:
        ArtifactError: A check failed; the message lists all failed checks.
    """
    if failed := [row for row in rows if not row.passed]:
        listed = "\n".join(
            f"  {row.form}: {row.check}: {row.value:.3g}, allowed {row.limit:.3g}"
            for row in failed
        )
        raise ArtifactError(
            f"export: {len(failed)} of {len(rows)} comparisons with the Keras model "
            f"failed:\n{listed}\nNothing was published, and an earlier export is "
            "still there. If the difference is acceptable, raise export.tolerance"
            f"{_instead(failed, config)}"
        )


def _instead(failed: Sequence[ParityCheck], config: RunConfig | None) -> str:
    """Returns further advice for a failed export, or an empty string."""
    if config is None or isinstance(config.objective, ImageObjective):
        return ""
    in_4_bits = any("int4" in row.form for row in failed)
    if not in_4_bits or config.export.tflite_tables == "int8":
        return ""
    return (
        ". Much of what files of 4 bits lose they lose in their tables of embeddings: "
        "with export.tflite_tables: int8 they lose less, and are larger"
    )


@contextmanager
def _failing_as_row(form: str, rows: list[ParityCheck]) -> Iterator[str]:
    """Converts a runtime error of an exported model to a failed parity check."""
    try:
        yield form
    except (tf.errors.OpError, RuntimeError, UserError) as error:
        reason = str(error).partition("\n")[0]
        rows.append(ParityCheck(form, f"does not run ({reason})", math.inf, 0.0, False))
