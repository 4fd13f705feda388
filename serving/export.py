"""The export stage: SavedModel and TFLite, held against Keras, then published."""

import hashlib
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from configs.abilities import phone_variants
from configs.command import Invocation
from configs.held_back import output_held_back
from configs.load import flatten
from configs.memory import peak_memory
from configs.run_folder import Stage, save_config, write_json, writing
from serving.dtypes import in_dtype, with_tolerance
from serving.forms import PhoneModel, ask_saved_model
from serving.gate import judge_of
from serving.gate.judge import Judge
from serving.gate.parity import check_parity, require_passed
from serving.gate.rows import Row
from serving.golden import write_golden
from serving.phone.litert_lm import bundle_name
from serving.questions import golden_questions
from serving.savedmodel import write_saved_model
from serving.tasks import task_of
from serving.tflite import file_name, write_tflite
from serving.trained import TOKENIZER, WEIGHTS, Trained, load_trained, training_record
from serving.warmup import write_warm_up

SAVED_MODEL = "saved_model"
TFLITE = "tflite"
PARITY = "parity.json"

WARM_UP_CALLS = 5
TIMED_CALLS = 40


def export(invocation: Invocation) -> dict[str, Any]:
    """Exports the trained model of a run, or finds it exported.

    Everything is built in a folder beside and moves into `RUN/export` when all
    comparisons have passed; until then what was exported before stays as it is.

    Returns:
        The stage's result: `path`, `saved_model` and `tflite` (path, bytes and the
        median time of a call with one text), `parity` and a `summary`.

    Raises:
        ArtifactError: There is no trained model of this configuration, it is damaged,
            or a form does not give its answers.
    """
    config, console = invocation.config, invocation.console
    run_folder = invocation.run_folder
    stage = Stage(run_folder, "export", invocation.command("export"))
    inputs = _inputs(invocation)
    result = stage.result_if_done(inputs)
    if result and all(path.exists() for path in _published(invocation)):
        console.result(f"skipped: the same model is exported to {stage.path} already")
        return {**result, "skipped": True}

    for line in stage.differences(inputs):
        console.say(f"exported anew, because {line}")
    console.say("loading the trained model")
    trained = load_trained(run_folder, config)
    building = run_folder / ".export-building"
    shutil.rmtree(building, ignore_errors=True)
    try:
        with peak_memory() as peak:
            with output_held_back():  # oneDNN tells of what this processor lacks
                judge = judge_of(with_tolerance(trained), run_folder)
            rows = _build(trained, judge, run_folder, building, console.say)
            result = _measure(trained, judge, building, stage.path, rows)
        result["peak_memory_mb"] = peak.megabytes
        write_json(building / PARITY, result["parity"])
        save_config(building, config)
        if moved := stage.begin(inputs):
            console.say(f"the export made before is now in {moved}")
        _move_into(building, stage.path)
        stage.finish(inputs, result)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    console.result(result["summary"])
    return result


def _inputs(invocation: Invocation) -> dict[str, Any]:
    """All that the exported forms depend on."""
    run_folder, config = invocation.run_folder, invocation.config
    training = training_record(run_folder, config, invocation.command("train"))
    weights = run_folder / WEIGHTS
    return {
        **flatten(config, "export"),
        "training": training["fingerprint"],
        "weights_sha256": _sha256(weights) if weights.is_file() else "missing",
    }


def _published(invocation: Invocation) -> list[Path]:
    folder, config = invocation.run_folder / "export", invocation.config
    variants = phone_variants(config)
    return [
        folder / SAVED_MODEL / str(config.export.version) / "saved_model.pb",
        *(folder / TFLITE / file_name(variant) for variant in variants),
        *(
            folder / TFLITE / bundle_name(v)
            for v in variants
            if config.export.litert_lm
        ),
    ]


def _build(
    trained: Trained,
    judge: Judge,
    run_folder: Path,
    building: Path,
    say: Callable[[str], None],
) -> list[Row]:
    """Makes all forms in a folder and holds them against Keras."""
    export = trained.config.export
    say(f"writing the SavedModel, version {export.version}")
    saved_model = building / SAVED_MODEL / str(export.version)
    rounded = in_dtype(trained)
    write_saved_model(rounded, saved_model)
    with output_held_back():  # oneDNN tells of what this processor lacks
        task = task_of(rounded)
        write_warm_up(saved_model, task)
        write_golden(saved_model, list(golden_questions(task, export.dtype)))
    tflite = {}
    if variants := phone_variants(trained.config):
        say(f"converting to TFLite: {', '.join(variants)}")
        tflite = write_tflite(trained, run_folder / TOKENIZER, building / TFLITE)
    say(f"comparing each form with Keras on {judge.size} {_kind(trained)}s")
    with output_held_back():
        rows = check_parity(with_tolerance(trained), judge, saved_model, tflite)
    require_passed(rows)
    return rows


def _measure(
    trained: Trained,
    judge: Judge,
    building: Path,
    published: Path,
    rows: Sequence[Row],
) -> dict[str, Any]:
    """Size and speed of each form, under the paths they will have."""
    export = trained.config.export
    saved_model = Path(SAVED_MODEL, str(export.version))
    ask = ask_saved_model(building / saved_model)
    result: dict[str, Any] = {
        "path": str(published),
        "saved_model": {
            "path": str(published / saved_model),
            "bytes": _size(building / saved_model),
            "latency_ms": _median_ms(lambda: judge.ask_once(ask)),
        },
        "tflite": {},
    }
    for variant in phone_variants(trained.config):
        file = Path(TFLITE, file_name(variant))
        model = PhoneModel(building / file)
        result["tflite"][variant] = {
            "path": str(published / file),
            "bytes": _size(building / file),
            "latency_ms": _median_ms(lambda model=model: judge.ask_phone_once(model)),
        }
    result["parity"] = [row.as_json() for row in rows]
    result["summary"] = _summary(result, _kind(trained))
    return result


def _kind(trained: Trained) -> str:
    """What the model is asked about."""
    is_image = trained.config.objective.kind == "image_classification"
    return "image" if is_image else "text"


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


def _median_ms(call: Callable[[], Any]) -> float:
    for _ in range(WARM_UP_CALLS):
        call()
    times = []
    for _ in range(TIMED_CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return round(1000 * statistics.median(times), 3)


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(file.stat().st_size for file in files)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _move_into(building: Path, folder: Path) -> None:
    with writing(folder):
        for made in building.iterdir():
            target = folder / made.name
            if target.is_dir():
                # Left by an export that was killed here, or was found incomplete.
                shutil.rmtree(target)
            made.rename(target)
