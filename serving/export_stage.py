"""The export stage: SavedModel and TFLite files, compared with Keras and published."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.system.native_output import output_on_error
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.exported_tokenizer import write_exported_tokenizer
from transbeam.serving.base.golden_requests import write_golden
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun
from transbeam.serving.export.atomic_publish import (
    count_bytes,
    input_kind,
    median_ms,
    publish,
)
from transbeam.serving.export.export_dtype import in_dtype, with_tolerance
from transbeam.serving.export.saved_model_writer import write_saved_model
from transbeam.serving.export.stored_requests import make_golden_requests, write_warm_up
from transbeam.serving.parity.base.parity_checker import ParityChecker
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import (
    check_metric,
    check_parity,
    require_passed,
)
from transbeam.serving.parity.metrics.task_metrics import make_task_metric
from transbeam.serving.phone.conversion.tflite_converter import (
    file_name,
    phone_files,
    rounded_weights,
    write_tflite,
)
from transbeam.serving.runtimes.saved_model import AskTexts, load_saved_model_function
from transbeam.serving.signatures.task_factory import make_signature_task

SAVED_MODEL = "saved_model"
TFLITE = "tflite"

# By metric, the scores of Keras and of each variant.
Scores = dict[str, dict[str, float]]


def export(invocation: Invocation) -> dict[str, Any]:
    """Exports the trained model of a run, unless its export is up to date.

    All files are built in a temporary folder and moved to `RUN/export` when all parity
    checks have passed; until then a previous export stays in place.

    Returns:
        The stage's result: `path`, `saved_model` and `tflite` (path, bytes and the
        median latency of a call with one text), `parity`, `scores` (the task metric of
        Keras and of each file) and a `summary`.

    Raises:
        ArtifactError: There is no trained model of this configuration, the model is
            damaged, or a parity check failed.
    """
    run_folder, config = invocation.run_folder, invocation.config
    stage = Stage(run_folder, "export", invocation.command("export"))

    def make(trained: TrainedRun, building: Path, published: Path) -> dict[str, Any]:
        with output_on_error():  # oneDNN logs missing CPU features
            checker = make_parity_checker(with_tolerance(trained), run_folder)
        # Loading takes seconds: the same instance is compared and timed.
        ask = load_saved_model_function(
            building / SAVED_MODEL / str(config.export.version)
        )
        rows, scores = _build(
            trained, checker, ask, run_folder, building, invocation.console
        )
        measured = _measure(trained, checker, ask, building, published, rows)
        return measured | {"scores": scores}

    needed = [
        stage.path / SAVED_MODEL / str(config.export.version) / "saved_model.pb",
        *(stage.path / TFLITE / name for name in phone_files(config)),
    ]
    return publish(invocation, stage, needed, make)


def _build(
    trained: TrainedRun,
    checker: ParityChecker,
    ask: AskTexts,
    run_folder: Path,
    building: Path,
    console: Console,
) -> tuple[list[ParityCheck], Scores]:
    """Writes all exported formats into a folder and compares them with Keras."""
    export = trained.config.export
    console.say(f"writing the SavedModel, version {export.version}")
    saved_model = building / SAVED_MODEL / str(export.version)
    rounded = in_dtype(trained)
    write_saved_model(rounded, saved_model)
    with output_on_error():  # oneDNN logs missing CPU features
        task = make_signature_task(rounded)
        write_warm_up(saved_model, task)
        write_golden(saved_model, make_golden_requests(task, export.dtype))
    write_exported_tokenizer(saved_model, read_tokenizer(run_folder / TOKENIZER).model)
    trained.calibration.write_to_saved_model(saved_model)
    tflite = {}
    if variants := trained.config.export.tflite:
        console.say(f"converting to TFLite: {', '.join(variants)}")
        tflite_folder = building / TFLITE
        rounded = rounded_weights(trained, run_folder, tflite_folder, console)
        tflite = write_tflite(trained, run_folder, tflite_folder, rounded)
    console.say(
        f"comparing each form with Keras on {checker.size} {input_kind(trained)}s"
    )
    with output_on_error():
        rows = check_parity(with_tolerance(trained), checker, saved_model, ask, tflite)
        scores, metric = {}, make_task_metric(trained, run_folder) if tflite else None
        if metric is not None:
            more, found = check_metric(metric, tflite)
            rows += more
            scores = {metric.name: {"keras": metric.of_keras, **found}}
    require_passed(rows, trained.config)
    return rows, scores


def _measure(
    trained: TrainedRun,
    checker: ParityChecker,
    ask: AskTexts,
    building: Path,
    published: Path,
    rows: Sequence[ParityCheck],
) -> dict[str, Any]:
    """Measures size and latency of each format, and lists their final paths."""
    export = trained.config.export
    saved_model = Path(SAVED_MODEL, str(export.version))
    result: dict[str, Any] = {
        "path": str(published),
        "saved_model": {
            "path": str(published / saved_model),
            "bytes": count_bytes(building / saved_model),
            "latency_ms": median_ms(lambda: checker.ask_once(ask)),
        },
        "tflite": {},
    }
    for variant in trained.config.export.tflite:
        file = Path(TFLITE, file_name(variant))
        model = TFLiteRunner(building / file)
        result["tflite"][variant] = {
            "path": str(published / file),
            "bytes": count_bytes(building / file),
            "latency_ms": median_ms(lambda model=model: checker.ask_phone_once(model)),
        }
    result["parity"] = [row.as_json() for row in rows]
    result["summary"] = _summary(result, input_kind(trained))
    return result


def _summary(result: Mapping[str, Any], kind: str) -> str:
    one = f"an {kind}" if kind == "image" else f"a {kind}"
    forms = {"SavedModel": result["saved_model"]} | {
        f"TFLite {variant}": form for variant, form in result["tflite"].items()
    }
    described = "; ".join(
        f"{name} {form['bytes'] / 1e6:.1f} MB, {form['latency_ms']:.1f} ms {one}"
        for name, form in forms.items()
    )
    return f"{described}; all {len(result['parity'])} comparisons with Keras passed"
