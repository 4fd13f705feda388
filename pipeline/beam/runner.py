"""Runs a Beam job for a command: options, log, progress and cancellation."""

import json
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from urllib.request import Request, urlopen

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.runner import PipelineResult
from apache_beam.runners.worker import sdk_worker

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.pipeline.beam.worker_failures import find_user_error

# Set explicitly, because Beam's default runner would download a binary.
LOCAL_RUNNER = "FnApiRunner"


# Source bytes from which processes are faster: they take some seconds longer to start
# than threads, but do not share one interpreter.
_WORTH_PROCESSES = 50_000_000


_TAIL_LINES = 30
_FLINK_TIMEOUT = 10  # seconds for an answer


def beam_options(
    workers: int,
    runner: str = LOCAL_RUNNER,
    options: Sequence[str] = (),
    size: int = _WORTH_PROCESSES,
) -> PipelineOptions:
    """Returns options for Beam; of conflicting options, the last takes precedence.

    Args:
        workers: The number of workers, for Beam's own runners.
        runner: The runner's name in Beam.
        options: Further options for Beam, which override those set here.
        size: The size of the source in bytes, if known. Small jobs run in threads.

    Example:
    >>> options = beam_options(2, options=["--direct_num_workers=3"])
    >>> options.get_all_options()["direct_num_workers"]
    3
    """
    ours = [f"--runner={runner}"]
    if runner == LOCAL_RUNNER:
        several = "multi_processing" if size >= _WORTH_PROCESSES else "multi_threading"
        mode = "in_memory" if workers == 1 else several
        ours += [f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
    else:
        # A unique name, by which the job is found on its cluster.
        ours += [f"--job_name=transbeam-{uuid.uuid4()}"]
    return PipelineOptions([*ours, *options])


def amount(size: int, units: int, workers: int) -> str:
    """Describes the size of a job and its number of workers.

    Example:
    >>> amount(1_440_000, 1, 2)
    '1.4 MB of source in 1 unit, 2 workers'
    """
    return (
        f"{size / 1e6:.1f} MB of source in {_several(units, 'unit')}, "
        f"{_several(workers, 'worker')}"
    )


def _several(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


@contextmanager
def run_pipeline(options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """Yields a pipeline to build; runs it at the end of the `with` block.

    Like `beam.Pipeline`, but a Ctrl-C cancels the job, which would otherwise keep
    running on a remote engine.

    Raises:
        UserError: The job could not be cancelled.
    """
    with _labels_without_cells():
        pipeline = beam.Pipeline(options=options)
        yield pipeline
        result = None
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except KeyboardInterrupt:
            if options.view_as(StandardOptions).runner != LOCAL_RUNNER:
                _cancel(result, options)
            raise


@contextmanager
def _labels_without_cells() -> Iterator[None]:
    """A context in which labels of transforms are the same in a notebook as elsewhere.

    In IPython Beam would add the cell's number to each label, and for that it imports
    pandas, which it does not install.
    """
    module: Any = sys.modules[beam.Pipeline.__module__]
    theirs = module.alter_label_if_ipython
    module.alter_label_if_ipython = lambda *_: None
    try:
        yield
    finally:
        module.alter_label_if_ipython = theirs


def _cancel(result: PipelineResult | None, options: PipelineOptions) -> None:
    name = options.view_as(GoogleCloudOptions).job_name
    flink = options.view_as(FlinkRunnerOptions).flink_master
    try:
        if flink.startswith("["):  # one of Beam's modes without an address
            if result is None:
                raise LookupError("it was being submitted")
            result.cancel()
        else:
            if result is not None:
                with suppress(Exception):  # our own job server is gone
                    result.cancel()
            cancel_on_flink(flink, name)
    except Exception as error:  # each engine's client has its own exceptions
        raise UserError(
            f"interrupted, but the job {name} could not be cancelled ({error}). See on "
            "the cluster whether it runs, and cancel it there before you run the same "
            "command again"
        ) from error


def run_in_beam(
    job: Callable[[], None],
    progress: AbstractContextManager[None],
    log: Path,
    console: Console,
    *,
    remote: bool = False,
) -> None:
    """Runs a blocking job: shows its progress, writes its log, raises its user errors.

    Args:
        job: Builds and runs a pipeline.
        progress: Shows progress while the context is open.
        log: The log file for the output of Beam and TensorFlow.
        console: Prints the end of the log after an unexpected failure.
        remote: True if an engine other than Beam's own runs the job. For such an engine
            Beam starts a job server with signal handlers, which only the main thread
            may set.

    Raises:
        UserError: A user error occurred in a worker.
    """
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    try:
        with (
            _root_logger_to(log),
            _tracebacks_logged_alone(),
            chatter_to(log),
            progress,
        ):
            job() if remote else interruptibly(job)
    except Exception as error:
        if user_error := find_user_error(error):
            raise user_error from None
        console.warn(f"the end of {log}:\n{tail(log)}")
        raise


@contextmanager
def _root_logger_to(path: Path) -> Iterator[None]:
    """Writes Beam's warnings on the root logger to the log file."""
    with writing(path):
        handler = logging.FileHandler(path)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _tracebacks_logged_alone() -> Iterator[None]:
    """Keeps Beam's worker threads from printing tracebacks, which they log as well."""
    sdk_worker.print = lambda *_, **__: None  # pyright: ignore
    try:
        yield
    finally:
        del sdk_worker.print  # pyright: ignore


def interruptibly(work: Callable[[], None]) -> None:
    """Runs a function in a thread, because Beam's code ignores a Ctrl-C.

    After an interrupt, the command does not wait for the job to end. Each file of the
    job is either complete or missing, so running the same command again resumes from
    the step markers.
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
def markers_shown(
    markers: Mapping[Path, float], console: Console, label: str
) -> Iterator[None]:
    """Shows the progress of a job with a single step, from its marker files.

    Args:
        markers: The megabytes of work that each marker represents.
        console: Shows the progress.
        label: The progress bar's label.
    """
    with steps_shown([(label, lambda: markers)], console):
        yield


@contextmanager
def steps_shown(
    steps: Sequence[tuple[str, Callable[[], Mapping[Path, float]]]], console: Console
) -> Iterator[None]:
    """Shows the progress of a job with several steps, one progress bar per step.

    Beam blocks until the job is done, and the workers are other processes: progress is
    visible only from the markers that they write.

    Args:
        steps: For each step, its label and a function that returns its marker files
            with the megabytes that each represents. The function is called when the
            previous step is done.
        console: Shows the progress.
    """
    done = threading.Event()

    def watch() -> None:
        for label, markers in steps:
            if done.is_set() and label != steps[0][0]:
                return
            left = dict(markers())
            total = sum(left.values())
            start = sum(left.pop(path) for path in _present(left))  # by an earlier run
            with console.progress(label, total=total, unit="MB", start=start) as bar:
                while True:
                    last_look = done.is_set()
                    for path in _present(left):
                        bar.advance(left.pop(path))
                    if not left or last_look:
                        break
                    done.wait(0.5)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _present(markers: Mapping[Path, float]) -> list[Path]:
    return [path for path in markers if path.is_file()]


@contextmanager
def chatter_to(path: Path) -> Iterator[None]:
    """Redirects file descriptor 2 to a file; `sys.stderr` still reaches the user."""
    sys.stderr.flush()
    terminal = os.dup(2)
    before = sys.stderr
    with writing(path), open(path, "ab") as log:
        os.dup2(log.fileno(), 2)
    sys.stderr = os.fdopen(terminal, "w", buffering=1, closefd=False)
    try:
        yield
    except KeyboardInterrupt:
        raise  # abandoned threads keep writing until the process ends
    except BaseException:
        _restore(terminal, before)
        raise
    else:
        _restore(terminal, before)


def _restore(terminal: int, stderr: TextIO) -> None:
    sys.stderr.flush()
    os.dup2(terminal, 2)
    sys.stderr = stderr
    os.close(terminal)


def tail(path: Path) -> str:
    """Returns the last lines of a log, for unexpected failures."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])


def cancel_on_flink(master: str, name: str) -> None:
    """Requests cancellation of a job; Flink stops its tasks within seconds.

    Args:
        master: The job manager's REST address, such as `host:8081`.
        name: The job's name. If the job has already ended, nothing is done.

    Raises:
        OSError: The server is unreachable, or rejects the request.
        LookupError: There is no job of this name; it may not be submitted yet.
    """
    address = master if "://" in master else f"http://{master}"
    with urlopen(f"{address}/jobs/overview", timeout=_FLINK_TIMEOUT) as answer:
        jobs = json.load(answer)["jobs"]
    named = [job for job in jobs if job["name"] == name]
    if not named:
        raise LookupError(f"{master} does not know it")
    for job in named:
        if job["end-time"] < 0:
            end = Request(f"{address}/jobs/{job['jid']}?mode=cancel", method="PATCH")
            urlopen(end, timeout=_FLINK_TIMEOUT).close()
