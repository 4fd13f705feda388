"""The data stage of a run: plan, run the job, write the manifest."""

import shutil
from pathlib import Path
from typing import Any

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.objective_requirements import (
    ends_with_end_token,
    frames_texts_for_decoder,
)
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import peak_memory
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.accounting.job_warnings import warn_of_losses
from transbeam.pipeline.cleaning.language_identification import require_identifier
from transbeam.pipeline.documents.step_markers import (
    all_parts,
    open_job_folder,
    state_path,
    unit_name,
)
from transbeam.pipeline.manifest_writer import describe, write_results
from transbeam.pipeline.objectives.base.special_tokens import check_special
from transbeam.pipeline.sources.corpus_files import corpus_fingerprint, list_files
from transbeam.pipeline.sources.files.remote_files import use_options
from transbeam.pipeline.sources.work_units import Unit, plan_units
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    fingerprint_pretrained,
)

MEGABYTE = 1_000_000


# Inputs that are not configuration keys but fingerprints of files.
_FOUND = ("corpus", "tokenizer_files")


def data_inputs(config: RunConfig) -> dict[str, Any]:
    """Returns the configuration keys that the records depend on."""
    sections = ("data.", "tokenizer.", "objective.")
    flat = flatten(config)
    keys = {
        key: value
        for key, value in flat.items()
        if key == "seed" or key.startswith(sections)
    }
    if not frames_texts_for_decoder(config):
        return keys
    # The special tokens of the records depend on the model.
    keys["model.kind"] = flat["model.kind"]
    if ends_with_end_token(config):
        keys["model.pooler.kind"] = flat["model.pooler.kind"]
    return keys


def data_stage(run_folder: Path) -> Stage:
    """Returns the data stage of a run."""
    return Stage(run_folder, "data", f"transbeam data CONFIG --run {run_folder}")


def finished_data(config: RunConfig, run_folder: Path) -> dict[str, Any]:
    """Returns the result of a run's finished data stage, for later stages.

    The corpus itself is not read.

    Raises:
        ArtifactError: The run has no records, or the records were made with another
            configuration.
    """
    stage = data_stage(run_folder)
    made_from = stage.load()["inputs"]
    found = {key: made_from[key] for key in _FOUND if key in made_from}
    return stage.require({**data_inputs(config), **found})


def data(invocation: Invocation) -> dict[str, Any]:
    """Makes the records of a run, unless the records exist already.

    Returns:
        The stage's result: counts, shares and fingerprints.

    Raises:
        UserError: The corpus or the configuration cannot be used, or the disk fails.
    """
    config, console = invocation.config, invocation.console
    use_options(invocation.beam_options)
    files = list_files(config.data.source, config.data.validation_source)
    inputs = {**data_inputs(config), "corpus": corpus_fingerprint(files)}
    if found := fingerprint_pretrained(config.tokenizer):
        inputs["tokenizer_files"], special = found
        check_special(special, config)
    stage = data_stage(invocation.run_folder)
    if stage.take_up(inputs):
        console.say(f"restored from {invocation.run_folder / 'superseded'}")
    if result := stage.result_if_done(inputs):
        console.result(
            f"skipped: {stage.path} was made from the same corpus ({len(files)} "
            "files) with the same data, tokenizer and objective"
        )
        warn_of_losses(console, config, result)
        return {**result, "skipped": True}
    if config.data.cleaning.languages:
        require_identifier()
    for line in stage.differences(inputs):
        console.say(f"rebuilt, because {line}")
    if moved := stage.begin(inputs):
        console.say(f"the earlier records are now in {moved}")
    units = plan_units(
        files,
        config.data.source,
        int(config.data.shard_megabytes * MEGABYTE),
        config.data.validation_source,
    )
    with peak_memory() as peak:
        _run(invocation, stage.path, units)
        result = write_results(stage.path, config, data_inputs(config), files)
    shutil.rmtree(stage.path / "state")
    result = {
        "summary": describe(result),
        "path": str(stage.path),
        "peak_memory_mb": peak.megabytes,
        **result,
    }
    save_config(stage.path, config)
    stage.finish(inputs, result)
    console.result(result["summary"])
    warn_of_losses(console, config, result)
    return result


def _run(invocation: Invocation, folder: Path, units: list[Unit]) -> None:
    console = invocation.console
    quiet_import("apache_beam")
    from transbeam.pipeline.beam.job import Job, run_job
    from transbeam.pipeline.beam.runner import (
        LOCAL_RUNNER,
        amount,
        beam_options,
        run_in_beam,
        steps_shown,
    )

    workers = min(invocation.workers, len(units))
    open_job_folder(folder, "state", "documents")
    size = sum(unit.size for unit in units)
    console.say(amount(size, len(units), workers))
    job = Job(invocation.config, folder.absolute(), invocation.beam_options)
    options = beam_options(workers, invocation.runner, invocation.beam_options, size)

    def sources() -> dict[Path, float]:
        return {
            state_path(folder, "documents", unit_name(u.index)): u.size / MEGABYTE
            for u in units
        }

    def parts() -> dict[Path, float]:
        return {
            state_path(folder, "records", part.name): part.size / MEGABYTE
            for part in all_parts(folder)
        }

    steps = [("reading and cleaning", sources), ("tokenizing and packing", parts)]
    run_in_beam(
        lambda: run_job(job, units, options),
        steps_shown(steps, console),
        folder / "job.log",
        console,
        remote=invocation.runner != LOCAL_RUNNER,
    )
