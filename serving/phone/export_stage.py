"""Exports a folder of files for app developers: `transbeam export --target phone`.

RUN/phone/README.md                contents and usage
RUN/phone/model_<variant>.tflite   of each variant
RUN/phone/phone_tokenizer.json     and the tokenizer in Python, Kotlin and Swift
RUN/phone/labels.txt
RUN/phone/phone_report.md          size, latency and metric loss of each variant
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.objective_requirements import frames_texts_for_decoder
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.native_output import output_on_error
from transbeam.pipeline.tokenizers.base.text_frame import (
    TextFrame,
    embedding_frame,
    frame_of_run,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun
from transbeam.serving.export.atomic_publish import input_kind, publish
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import (
    check_metric,
    check_phone_files,
    require_passed,
)
from transbeam.serving.parity.metrics.task_metrics import TaskMetric, make_task_metric
from transbeam.serving.phone.conversion.text_input_models import PREFIX as TEXT_INPUT
from transbeam.serving.phone.conversion.text_input_models import (
    text_rows,
    write_text_models,
)
from transbeam.serving.phone.conversion.tflite_converter import (
    file_name,
    phone_files,
    rounded_weights,
    write_tflite,
)
from transbeam.serving.phone.mediapipe_tasks.mediapipe_check import advice
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import PREFIX as MEDIAPIPE
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import (
    mediapipe_rows,
    write_mediapipe,
)
from transbeam.serving.phone.quantization.int4_weights import RoundedWeights
from transbeam.serving.phone.quantization.quantizer import INT8
from transbeam.serving.phone.readme.readme_writer import write_handover
from transbeam.serving.phone.report.variant_report import (
    Measured,
    Report,
    measure_latencies,
)
from transbeam.serving.phone.tokenizer.tokenizer_files import write_tokenizer
from transbeam.serving.signatures.generation.tflite_signatures import DECODE
from transbeam.serving.signatures.task_factory import make_signature_task

PHONE = "phone"
README = "README.md"


def export_for_phones(invocation: Invocation) -> dict[str, Any]:
    """Makes the phone export of a run's trained model, unless it is up to date.

    Every file is compared with Keras in each runtime configuration of phones, and its
    task-metric loss is measured. If a difference or loss exceeds `export.tolerance`,
    nothing is published.

    Returns:
        The stage's result: `path`, `tflite` (path, bytes and the median milliseconds
        of a call by threads and tokens), `parity`, `scores` and a `summary`.

    Raises:
        ConfigError: `export.tflite` is empty.
        ArtifactError: There is no trained model of this configuration, the model is
            damaged, or a check of a file failed.
    """
    config = invocation.config
    if not config.export.tflite:
        raise ConfigError(
            "export.tflite is empty, and there is nothing to make for phones. Name a "
            "variant there, such as dynamic_int8"
        )
    command = f"{invocation.command('export')} --target phone"
    stage = Stage(invocation.run_folder, PHONE, command)
    needed = [stage.path / name for name in _names(config)]
    return publish(invocation, stage, needed, partial(_make, invocation))


def _names(config: RunConfig) -> list[str]:
    """Files whose absence causes a new export: all models, and the README."""
    variants = config.export.tflite
    names = [README, *phone_files(config)]
    if config.export.tflite_text:
        names += [file_name(each, TEXT_INPUT) for each in variants if each != INT8]
    if config.export.mediapipe:
        names += [file_name(each, MEDIAPIPE) for each in variants]
    return names


def _frame(trained: TrainedRun) -> TextFrame | None:
    """Returns the special tokens of the texts that a decoder reads for its head."""
    config, special = trained.config, trained.tokenizer.special
    if frames_texts_for_decoder(config):
        return frame_of_run(config, special)
    if isinstance(config.model, DecoderConfig) and not trained.has_head:
        return embedding_frame(config, special)
    return None


def _make(
    invocation: Invocation, trained: TrainedRun, building: Path, published: Path
) -> dict[str, Any]:
    """See `transbeam.serving.export.atomic_publish.Make`."""
    run_folder, console = invocation.run_folder, invocation.console
    console.say(f"converting to TFLite: {', '.join(trained.config.export.tflite)}")
    rounded = rounded_weights(trained, run_folder, building, console)
    files = write_tflite(trained, run_folder, building, rounded)
    rows = _write_optional_files(invocation, trained, files, building, rounded)
    report = _compare_with_keras(invocation, trained, files, rows)
    if input_kind(trained) == "text":
        write_tokenizer(run_folder / TOKENIZER, building, _frame(trained))
    report.write(building)
    write_handover(trained, building)
    return {
        "path": str(published),
        "tflite": {
            name: {
                "path": str(published / files[name].name),
                "bytes": of.size,
                "latency_ms": of.milliseconds,
            }
            for name, of in report.variants.items()
        },
        "parity": [row.as_json() for row in report.rows],
        "scores": report.scores(),
        "summary": report.summary(),
    }


def _write_optional_files(
    invocation: Invocation,
    trained: TrainedRun,
    files: Mapping[str, Path],
    building: Path,
    rounded: RoundedWeights,
) -> list[ParityCheck]:
    """Writes text-input and MediaPipe files if configured; returns their checks."""
    run_folder, console = invocation.run_folder, invocation.console
    export, rows = trained.config.export, []
    if export.tflite_text:
        console.say("converting with the tokenizer inside")
        with output_on_error():
            made = write_text_models(trained, run_folder, building, rounded)
            rows += text_rows(trained, run_folder, files, made)
    if export.mediapipe:
        console.say("writing the MediaPipe bundle")
        made = write_mediapipe(trained, run_folder, building, rounded)
        if warning := advice(read_tokenizer(run_folder / TOKENIZER).model):
            console.warn(warning)
        with output_on_error():
            rows += mediapipe_rows(trained, run_folder, files, made)
    return rows


def _compare_with_keras(
    invocation: Invocation,
    trained: TrainedRun,
    files: Mapping[str, Path],
    others: list[ParityCheck],
) -> Report:
    """Compares all files with Keras and measures their latency.

    Raises:
        ArtifactError: A check failed.
    """
    run_folder, console = invocation.run_folder, invocation.console
    with output_on_error():  # oneDNN logs missing CPU features
        checker = make_parity_checker(trained, run_folder)
    console.say(
        f"comparing each file with Keras on {checker.size} {input_kind(trained)}s"
    )
    with output_on_error():
        rows = check_phone_files(checker, files) + others
        metric: TaskMetric | None = make_task_metric(trained, run_folder)
        scores: dict[str, float] = {}
        if metric is not None:
            more, scores = check_metric(metric, files)
            rows += more
    require_passed(rows, trained.config)
    console.say("measuring the latency of each file")
    signature, length = _timed(trained)
    measured = {
        name: Measured(
            file.stat().st_size,
            measure_latencies(file, signature, length),
            scores.get(name),
        )
        for name, file in files.items()
    }
    return Report(
        name=trained.config.name,
        unit="tokens" if length > 1 else f"{input_kind(trained)}",
        variants=measured,
        metric=metric.name if metric else None,
        of_keras=metric.of_keras if metric else None,
        rows=rows,
    )


def _timed(trained: TrainedRun) -> tuple[str, int]:
    """Returns the signature whose latency is measured, and its maximum length."""
    task = make_signature_task(trained)
    endpoints = task.phone_endpoints()
    if DECODE in endpoints:
        return DECODE, 1
    name, endpoint = next(iter(endpoints.items()))
    fixed = all(None not in spec.shape for spec in endpoint.inputs)
    return name, 1 if fixed else task.max_length
