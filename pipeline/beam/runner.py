"""Running a Beam job for a command: its options, its log, its progress, its end."""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

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
from transbeam.pipeline.beam.flink_cancellation import cancel_on_flink
from transbeam.pipeline.beam.job_log import chatter_to, tail
from transbeam.pipeline.beam.worker_failures import user_error_of

# Named, because Beam's default runner would fetch a binary from the net.
LOCAL_RUNNER = "FnApiRunner"


# Source bytes from which processes pay: they take some seconds longer to start than
# threads, and then no longer share one interpreter.
_WORTH_PROCESSES = 50_000_000


def beam_options(
    workers: int,
    runner: str = LOCAL_RUNNER,
    options: Sequence[str] = (),
    size: int = _WORTH_PROCESSES,
) -> PipelineOptions:
    """Beam's options; the last of two contrary ones wins.

    Args:
        workers: How many to work with, if the runner is Beam's own.
        runner: Beam's name of it.
        options: Further options for Beam, which win over ours.
        size: Bytes of work, if known. Little work is done in threads.

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
        # A name of its own, by which the job is found again on its cluster.
        ours += [f"--job_name=transbeam-{uuid.uuid4()}"]
    return PipelineOptions([*ours, *options])


def amount(size: int, units: int, workers: int) -> str:
    """What there is to do, and how many do it.

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
    """A pipeline to build in the `with` block; runs at its end until it is done.

    As `beam.Pipeline` itself, but a Ctrl-C cancels the job, which an engine elsewhere
    would go on with.

    Raises:
        UserError: The job could not be cancelled.
    """
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


def _cancel(result: PipelineResult | None, options: PipelineOptions) -> None:
    name = options.view_as(GoogleCloudOptions).job_name
    flink = options.view_as(FlinkRunnerOptions).flink_master
    try:
        if flink.startswith("["):  # not an address, but what Beam is to do without
            if result is None:
                raise LookupError("it was being submitted")
            result.cancel()
        else:
            if result is not None:
                with suppress(Exception):  # a job server of the command's own is gone
                    result.cancel()
            cancel_on_flink(flink, name)
    except Exception as error:  # each engine's client has its own
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
    """Runs a job that blocks until it is done.

    Args:
        job: Builds and runs a pipeline.
        progress: Shows how far it is, while it is open.
        log: Where Beam's and TensorFlow's chatter goes.
        console: Is shown the end of the log when a bug ends the job.
        remote: Another engine does the work. Beam then starts its job server with
            signal handlers, which only the main thread may set.

    Raises:
        UserError: What a worker ran into, if the user can mend it.
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
        if mendable := user_error_of(error):
            raise mendable from None
        console.warn(f"the end of {log}:\n{tail(log)}")
        raise


@contextmanager
def _root_logger_to(path: Path) -> Iterator[None]:
    """Keeps what Beam warns of through the root logger off the screen."""
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
    """Keeps Beam's worker threads from printing a traceback that they log as well."""
    sdk_worker.print = lambda *_, **__: None  # pyright: ignore
    try:
        yield
    finally:
        del sdk_worker.print  # pyright: ignore


def interruptibly(work: Callable[[], None]) -> None:
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
def markers_shown(
    markers: Mapping[Path, float], console: Console, label: str
) -> Iterator[None]:
    """Shows progress from the markers that workers leave, for a job of one step.

    Args:
        markers: Each with the megabytes of work it stands for.
        console: Where to show it.
        label: What is being done.
    """
    with steps_shown([(label, lambda: markers)], console):
        yield


@contextmanager
def steps_shown(
    steps: Sequence[tuple[str, Callable[[], Mapping[Path, float]]]], console: Console
) -> Iterator[None]:
    """Shows the progress of a job of several steps, one bar after the other.

    Beam blocks until the job is done, and the workers are other processes: all there
    is to look at are the markers they leave.

    Args:
        steps: What is being done, and a function that gives the markers with the
            megabytes each stands for; it is called when the step before is done.
        console: Where to show it.
    """
    done = threading.Event()

    def watch() -> None:
        for label, markers in steps:
            if done.is_set() and label != steps[0][0]:
                return
            left = dict(markers())
            total = sum(left.values())
            start = sum(left.pop(path) for path in _present(left))  # by a run before
            with console.progress(label, total=total, unit="MB", start=start) as bar:
                while True:
                    last_look = done.is_set()
                    for path in _present(left):
                        bar.advance(left.pop(path))
                    if not left or last_look:
                        break
                    done.wait(0.5)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _present(markers: Mapping[Path, float]) -> list[Path]:
    return [path for path in markers if path.is_file()]
