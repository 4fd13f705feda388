"""The steps of a training, one after another, to an orderly end."""

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.evaluation.evaluation_loop import EvaluationMetrics
from transbeam.trainer.loop.checkpoint import Checkpoints
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.step.state import TrainState


class Stop:
    """Whether somebody asked the training to stop, at whichever worker.

    Args:
        workers: All that train.
    """

    def __init__(self, workers: Workers):
        self.workers = workers
        self.asked = False  # here

    def is_due(self) -> bool:
        """Whether to stop after this step; all workers have the same answer."""
        return self.workers.hears(self.asked)

    def leave(self) -> NoReturn:
        """Ends the training, when all workers are ready for it."""
        self.workers.wait()
        raise KeyboardInterrupt


def run_steps(
    update: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    batches: Iterator[Mapping[str, Any]],
    validate: Callable[[], EvaluationMetrics],
    *,
    state: TrainState,
    config: TrainingConfig,
    log: TrainingLog,
    checkpoints: Checkpoints,
    stopping: AbstractContextManager[Stop],
) -> None:
    """Updates from `log.step` to the last step of the configuration.

    Each `evaluate_every` steps, and after the last, there is a validation and a
    checkpoint.

    Args:
        update: From `transbeam.trainer.step.build.build_step`.
        batches: From where the training is.
        validate: Measures the model as it is.
        state: What updates change.
        config: The `training` section.
        log: Counts the steps.
        checkpoints: Where they are saved.
        stopping: From `stop_on_signals`.

    Raises:
        KeyboardInterrupt: After a stop that was asked for.
        UserError: The disk refuses, or the loss is not finite for too long.
    """
    with stopping as stop:
        log.restart_clock()
        while log.step < config.steps:
            began = time.perf_counter()
            batch = next(batches)
            waited = time.perf_counter() - began
            log.add(update(batch), waited)
            stops = stop.is_due()
            ends = log.step == config.steps
            if log.step % config.evaluate_every == 0 or ends:
                log.flush()
                found = validate()
                log.validated(found)
                checkpoints.save(state, log.step, found.loss)
                log.restart_clock()
            elif stops:
                log.flush()
                checkpoints.save(state, log.step)
            if stops:
                checkpoints.wait()
                stop.leave()
        checkpoints.wait()


@contextmanager
def stop_on_signals(
    say: Callable[[str], None], workers: Workers
) -> Generator[Stop, None, None]:
    """Inside, a first SIGINT (Ctrl-C) or SIGTERM asks to stop, and a second one stops.

    Args:
        say: Tells the user that a stop is under way.
        workers: All that train; who asks one of them, asks all.
    """
    stop = Stop(workers)
    if threading.current_thread() is not threading.main_thread():
        yield stop  # Python hands signals to the main thread alone
        return

    def handle(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        say("stopping after this step; once more to stop at once")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
