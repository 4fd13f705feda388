"""The data stage of a run: plan, run the job, write the manifest."""

import hashlib
import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configs.command import Invocation
from configs.console import Console
from configs.files import write_json, writing
from configs.load import flatten
from configs.memory import peak_memory
from configs.quiet import quiet_import
from configs.run import RunConfig
from configs.run_folder import Stage, save_config
from configs.version import VERSION
from pipeline.failures import user_error_of
from pipeline.features import contract
from pipeline.job_log import chatter_to, tail
from pipeline.manifest import FILE, FORMAT, counts_of
from pipeline.sources import (
    Unit,
    corpus_fingerprint,
    list_files,
    plan_units,
)
from pipeline.spans import SourceFile
from pipeline.states import Half, finished, read_states
from pipeline.tokenizers.artifact import tokenizer_fingerprint

MEGABYTE = 1_000_000


def data_inputs(config: RunConfig) -> dict[str, Any]:
    """The configuration keys that decide what the records are."""
    sections = ("data.", "tokenizer.", "objective.")
    return {
        key: value
        for key, value in flatten(config).items()
        if key == "seed" or key.startswith(sections)
    }


def data_stage(run_folder: Path) -> Stage:
    """Where a run keeps its records."""
    return Stage(run_folder, "data", f"transbeam data CONFIG --run {run_folder}")


def finished_data(config: RunConfig, run_folder: Path) -> dict[str, Any]:
    """The result of a run's data stage, for the stages that build on it.

    The corpus itself need not be there any more.

    Raises:
        ArtifactError: There are no records, or they were made with other keys.
    """
    stage = data_stage(run_folder)
    corpus = stage.load()["inputs"].get("corpus")
    return stage.require({**data_inputs(config), "corpus": corpus})


def data(invocation: Invocation) -> dict[str, Any]:
    """Makes the records of a run, or finds them made.

    Returns:
        The stage's result: counts, shares and fingerprints.

    Raises:
        UserError: The corpus, the configuration or the disk does not let it.
    """
    config, console = invocation.config, invocation.console
    files = list_files(config.data.source)
    inputs = {**data_inputs(config), "corpus": corpus_fingerprint(files)}
    stage = data_stage(invocation.run_folder)
    if result := stage.result_if_done(inputs):
        console.result(
            f"skipped: the same corpus ({len(files)} files) and the same data, "
            f"tokenizer and objective made {stage.path} before"
        )
        return {**result, "skipped": True}
    for line in stage.differences(inputs):
        console.say(f"made anew, because {line}")
    if moved := stage.begin(inputs):
        console.say(f"the records made before are now in {moved}")
    units = plan_units(
        files, config.data.source, int(config.data.shard_megabytes * MEGABYTE)
    )
    _clear_leftovers(stage.path)
    with peak_memory() as peak:
        _run(config, stage.path, units, invocation.workers, console)
        result = _write_manifest(config, stage.path, files, units)
    result = {
        "summary": describe(result),
        "path": str(stage.path),
        "peak_memory_mb": peak.megabytes,
        **result,
    }
    save_config(stage.path, config)
    stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def _run(
    config: RunConfig, folder: Path, units: list[Unit], workers: int, console: Console
) -> None:
    quiet_import("apache_beam")
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    from pipeline.job import Job, run_job

    workers = min(workers, len(units))
    with writing(folder):
        (folder / "state").mkdir(exist_ok=True)
    size = sum(unit.size for unit in units) / MEGABYTE
    console.say(
        f"{size:.1f} MB of source in {len(units)} units, {workers} worker"
        + ("s" if workers > 1 else "")
    )
    log = folder / "job.log"
    try:
        with chatter_to(log), _progress(folder, units, console):
            _interruptibly(lambda: run_job(Job(config, folder), units, workers))
    except Exception as error:
        if mendable := user_error_of(error):
            raise mendable from None
        console.warn(f"the end of {log}:\n{tail(log)}")
        raise


def _interruptibly(work: Callable[[], None]) -> None:
    """Does the work in a thread, because Beam swallows a Ctrl-C met in its own code.

    An interrupted job is abandoned where it is: its files are whole or not there, and
    the same command goes on from its markers.
    """
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if failures:
        raise failures[0]


@contextmanager
def _progress(folder: Path, units: Sequence[Unit], console: Console) -> Iterator[None]:
    """Shows both halves of the job, from the markers that the workers leave.

    Beam blocks until the job is done, and the workers are other processes.
    """
    sizes = [unit.size / MEGABYTE for unit in units]
    halves: list[tuple[Half, str]] = [
        ("documents", "reading and cleaning"),
        ("records", "tokenizing, packing, masking"),
    ]
    done = threading.Event()

    def watch() -> None:
        for half, label in halves:
            with console.progress(label, total=sum(sizes), unit="MB") as bar:
                while True:
                    last_look = done.is_set()
                    indices = finished(folder, half, len(units))
                    bar.set(sum(sizes[i] for i in indices))
                    if len(indices) == len(units) or last_look:
                        break
                    done.wait(0.2)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _clear_leftovers(folder: Path) -> None:
    """Removes half-written files of a job that was killed."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


def _write_manifest(
    config: RunConfig, folder: Path, files: Sequence[SourceFile], units: list[Unit]
) -> dict[str, Any]:
    """Adds the units' results up, writes the manifest, and sums it up."""
    built = read_states(folder, "records", len(units))
    shards = [shard for unit in built for shard in unit["shards"]]
    counts = counts_of(read_states(folder, "documents", len(units)), built)
    inputs = data_inputs(config)
    digest = hashlib.sha256("\n".join(s["sha256"] for s in shards).encode()).hexdigest()
    manifest = {
        "format": FORMAT,
        "code_version": VERSION,
        "config": inputs,
        "config_sha256": hashlib.sha256(
            json.dumps(inputs, sort_keys=True).encode()
        ).hexdigest(),
        "records_sha256": digest,
        "features": [feature.as_json() for feature in contract(config)],
        "vocabulary": {
            "size": config.tokenizer.vocabulary_size,
            "fingerprint": tokenizer_fingerprint(folder / "tokenizer"),
        },
        "counts": counts,
        "padding_fraction": _shares(counts, config.data.sequence_length),
        "shards": shards,
        "sources": [{"name": file.name, "bytes": file.size} for file in files],
    }
    write_json(folder / FILE, manifest)
    shutil.rmtree(folder / "state")
    return {
        "manifest": str(folder / FILE),
        "records_sha256": digest,
        "vocabulary_fingerprint": manifest["vocabulary"]["fingerprint"],
        "source_bytes": sum(file.size for file in files),
        "padding_fraction": manifest["padding_fraction"],
        "shards": len(shards),
        "counts": counts,
    }


def _shares(counts: dict[str, Any], sequence_length: int) -> dict[str, float]:
    return {
        split: round(counts["padding"][split] / (records * sequence_length), 5)
        for split, records in counts["records"].items()
        if records
    }


def describe(result: dict[str, Any]) -> str:
    """One line about the records, for people."""
    counts = result["counts"]
    dropped = sum(counts["filtered"].values())
    quarantined = sum(counts["quarantined"].values())
    return (
        f"{counts['records'].get('train', 0):,} training and "
        f"{counts['records'].get('validation', 0):,} validation records of "
        f"{sum(counts['tokens'].values()):,} tokens from {counts['read']:,} documents "
        f"({sum(counts['characters'].values()) / MEGABYTE:.1f} MB of text; {dropped:,} "
        f"filtered, {quarantined:,} quarantined); "
        f"{result['padding_fraction'].get('train', 0):.1%} padding"
    )
