"""`transbeam score`: runs an exported model on every document of a corpus.

The folder `OUTPUT.job` next to the output contains the quarantined documents and, until
the output is complete, the output files of finished blocks, from which the same command
resumes.
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.configs.base.saved_models import find_version
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.run_folder import Stage, lock
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.sources import ArraysSourceConfig, ImagesSourceConfig
from transbeam.configs.system.memory import peak_memory
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.accounting.reading_summary import (
    check_reading,
    not_read,
    show_reading,
    sum_reading,
)
from transbeam.pipeline.batch_inference.inference_job import (
    Ledger,
    Scoring,
    block_parts,
    marker_path,
    read_markers,
    run_scoring,
    total,
)
from transbeam.pipeline.batch_inference.prediction_rows import (
    RowFormat,
    find_file_format,
    join,
)
from transbeam.pipeline.batch_inference.saved_models import (
    read_signature,
    saved_model_fingerprint,
)
from transbeam.pipeline.batch_inference.score_request import ScoreRequest
from transbeam.pipeline.beam.runner import (
    LOCAL_RUNNER,
    amount,
    beam_options,
    markers_shown,
    run_in_beam,
)
from transbeam.pipeline.documents.step_markers import open_job_folder
from transbeam.pipeline.sources.corpus_files import (
    corpus_fingerprint,
    list_files,
    list_sources,
)
from transbeam.pipeline.sources.files.remote_files import use_options
from transbeam.pipeline.sources.work_units import Unit, plan_units

# Not data.shard_megabytes: the output should not depend on how records are made.
UNIT_BYTES = 500_000
MEGABYTE = 1_000_000


def score(invocation: Invocation, request: ScoreRequest) -> dict[str, Any]:
    """Runs a model on the documents of `data.source`, uncleaned.

    The rows and their order are a function of the corpus, the model, the signature and
    the batch size.

    Returns:
        A dictionary with `output`, `documents` (their number), `counts` (read = scored
        + filtered + quarantined), `bytes`, `seconds`, `peak_memory_mb`, `summary`, and
        the results of `sum_reading` (`unread`, `noted`, `encodings`,
        `dropped_in_sentences`).

    Raises:
        UserError: An argument, the corpus or the model cannot be used, the disk fails,
            or a file of the corpus is incomplete.
    """
    config, console, output = invocation.config, invocation.console, request.output
    _check(invocation, request)
    signature = read_signature(_model(invocation, request), request.signature)
    rows = RowFormat(find_file_format(output), signature.outputs, request.keep_text)
    use_options(invocation.beam_options)
    files = list_files(config.data.source)
    data = flatten(config, "data")
    inputs = {
        **{key: data[key] for key in data if key.startswith("data.source.")},
        "corpus": corpus_fingerprint(files),
        "model": saved_model_fingerprint(signature.folder),
        "signature": signature.name,
        "batch_size": request.batch_size,
        "keep_text": request.keep_text,
    }
    job = output.with_name(f"{output.name}.job")
    command = f"{invocation.command('score')} --output {output}"
    stage = Stage(job, "score", command)
    _refuse_another(stage, output, inputs)
    with lock(job), peak_memory() as peak:
        if result := _result_if_done(stage, output, inputs):
            check_reading(config.data, result)
            show_reading(console, result)
            console.result(
                f"skipped: the same command made {output} before{not_read(result)}"
            )
            return {**result, "skipped": True}
        began = time.monotonic()
        stage.begin(inputs)
        units = plan_units(files, config.data.source, UNIT_BYTES)
        scoring = Scoring(
            config.data.source,
            signature,
            request.batch_size,
            rows,
            stage.path.absolute(),
            invocation.beam_options,
        )
        _run(invocation, scoring, units)
        markers = read_markers(stage.path, len(units))
        reading = sum_reading(markers)
        # Before the output is written; the parts stay for a run that accepts it.
        check_reading(config.data, reading)
        ledger = total(markers)
        _join(scoring, output, ledger, len(units))
        seconds = time.monotonic() - began
        result = _result(output, ledger, reading, seconds)
        stage.finish(inputs, result)
        for name in ("parts", "state"):
            shutil.rmtree(stage.path / name)
    if ledger.quarantined:
        console.say(f"what could not be read is listed in {stage.path / 'quarantine'}")
    show_reading(console, reading)
    console.result(result["summary"])
    return {**result, "peak_memory_mb": peak.megabytes}


def _check(invocation: Invocation, request: ScoreRequest) -> None:
    if request.batch_size < 1:
        raise ConfigError(f"--batch-size {request.batch_size}: expected at least 1")
    find_file_format(request.output)
    for part in list_sources(invocation.config.data.source):
        if isinstance(part.source, ImagesSourceConfig | ArraysSourceConfig):
            raise ConfigError(
                f"data.source.kind={part.source.kind} has no texts to score. Give "
                "another source with --set data.source=..."
            )


def _model(invocation: Invocation, request: ScoreRequest) -> Path:
    """Returns the version folder of the SavedModel."""
    if request.model is not None:
        return find_version(request.model)
    export = Stage(invocation.run_folder, "export", invocation.command("export"))
    export.load()
    return find_version(export.path / "saved_model")


def _refuse_another(stage: Stage, output: Path, inputs: dict[str, Any]) -> None:
    """Rejects an existing output that was made from other inputs."""
    if differences := stage.differences(inputs):
        listed = "\n".join(f"  {line}" for line in differences)
        raise ArtifactError(
            f"{output}: started or finished before from other inputs:\n{listed}\n"
            f"Give another --output, or remove {output} and {stage.run_folder}"
        )
    if output.exists() and not stage.path.exists():
        raise ArtifactError(
            f"{output}: is there already, and not by this command. Give another "
            "--output, or remove it"
        )


def _result_if_done(
    stage: Stage, output: Path, inputs: dict[str, Any]
) -> dict[str, Any] | None:
    result = stage.result_if_done(inputs)
    if result and output.is_file() and output.stat().st_size == result["bytes"]:
        return result
    return None


def _run(invocation: Invocation, scoring: Scoring, units: list[Unit]) -> None:
    """Runs the job for the blocks whose output files are missing."""
    folder, console = scoring.folder, invocation.console
    open_job_folder(folder, "parts", "state")
    workers = min(invocation.workers, len(units))
    console.say(
        amount(sum(unit.size for unit in units), len(units), workers)
        + f"; {scoring.signature.name} of {scoring.signature.folder}"
    )
    options = beam_options(workers, invocation.runner, invocation.beam_options)
    markers = {marker_path(folder, u.index): u.size / MEGABYTE for u in units}
    run_in_beam(
        lambda: run_scoring(scoring, units, options),
        markers_shown(markers, console, "scoring"),
        folder / "job.log",
        console,
        remote=invocation.runner != LOCAL_RUNNER,
    )


def _join(scoring: Scoring, output: Path, ledger: Ledger, units: int) -> None:
    """Concatenates the blocks' output files to the output."""
    if not ledger.scored:
        reasons = list_reasons(ledger.quarantined + ledger.filtered)
        raise DataError(
            f"data.source: none of {ledger.read} documents could be scored: {reasons}. "
            "Fix the corpus, or the keys of data.source"
        )
    folder = scoring.folder
    parts = [part for unit in range(units) for part in block_parts(folder, unit)]
    join(parts, output, scoring.rows)


def _result(
    output: Path, ledger: Ledger, reading: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    filtered, quarantined = ledger.filtered.total(), ledger.quarantined.total()
    return {
        "summary": (
            f"{ledger.scored:,} of {ledger.read:,} documents scored ({filtered:,} "
            f"filtered, {quarantined:,} quarantined), "
            f"{ledger.scored / seconds:,.0f} a second: {output}{not_read(reading)}"
        ),
        "output": str(output),
        "documents": ledger.scored,
        "counts": {
            "read": ledger.read,
            "scored": ledger.scored,
            "filtered": dict(sorted(ledger.filtered.items())),
            "quarantined": dict(sorted(ledger.quarantined.items())),
        },
        **reading,
        "bytes": output.stat().st_size,
        "seconds": round(seconds, 3),
    }
