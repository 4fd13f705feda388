"""Training loop with validation, checkpoints, and a clean stop on signals."""

import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from transbeam.configs.schema.training import TrainingConfig
from transbeam.configs.system.signal_handlers import handling
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.evaluation.evaluation_loop import EvaluationMetrics
from transbeam.trainer.loop.checkpoint import Checkpoints
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.loop.weight_pruner import WeightPruner
from transbeam.trainer.step.state import TrainState


class Stop:
    """A request to stop the training, which any worker may receive.

    Args:
        workers: All workers of the training.
    """

    def __init__(self, workers: Workers):
        self.workers = workers
        self.is_requested = False  # at this worker

    def is_due(self) -> bool:
        """Returns whether to stop after this step, the same on all workers."""
        return self.workers.any_stop(self.is_requested)

    def leave(self) -> NoReturn:
        """Waits for all workers, then ends the training."""
        self.workers.wait()
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Measurements:
    """Measurements of the current model, made from time to time.

    Attributes:
        validate: Evaluates the model on validation batches.
        analyze: Analyzes the attention heads at a step, and returns numbers for
            TensorBoard; called every `analyze_every` steps.
    """

    validate: Callable[[], EvaluationMetrics]
    analyze: Callable[[int], Mapping[str, float]]


def run_steps(
    update: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    batches: Iterator[Mapping[str, Any]],
    measurements: Measurements,
    *,
    state: TrainState,
    config: TrainingConfig,
    log: TrainingLog,
    checkpoints: Checkpoints,
    stopping: AbstractContextManager[Stop],
) -> None:
    """Runs updates from `log.step` to the last step of the configuration.

    Validates and saves a checkpoint every `evaluate_every` steps and after the last
    step. Weights are pruned at the steps of `training.pruning`.

    Args:
        update: From `transbeam.trainer.step.build.build_step`.
        batches: Batches from the current step on.
        measurements: Measurements of the current model.
        state: The state that updates change.
        config: The `training` section.
        log: Counts and logs the steps.
        checkpoints: Saves checkpoints.
        stopping: From `stop_on_signals`.

    Raises:
        KeyboardInterrupt: The user stopped the training.
        UserError: The disk cannot be written, or the loss was not finite for too many
            steps.
    """
    pruner = WeightPruner(state, config.pruning) if config.pruning else None

    def prune(step: int) -> None:
        if pruner is not None:
            pruner.prune(step)
            log.sparsity = pruner.sparsity

    with stopping as stop:
        prune(log.step)
        log.restart_clock()
        while log.step < config.total_steps:
            began = time.perf_counter()
            batch = next(batches)
            waited = time.perf_counter() - began
            numbers = update(batch)
            prune(log.step + 1)
            log.add(numbers, waited)
            checkpoints.raise_failure()
            stops = stop.is_due()
            ends = log.step == config.total_steps
            if config.analyze_every and log.step % config.analyze_every == 0:
                log.flush()
                log.analyzed(measurements.analyze(log.step))
                log.restart_clock()
            if log.step % config.evaluate_every == 0 or ends:
                log.flush()
                found = measurements.validate()
                log.validated(found)
                # A model that is yet to be pruned is no candidate for the best.
                counts = pruner is None or pruner.is_finished(log.step)
                checkpoints.save(state, log.step, found.as_json() if counts else None)
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
    """A context in which a first SIGINT or SIGTERM requests a stop; a second one exits.

    Args:
        say: Prints to the user that the training will stop.
        workers: All workers of the training; a signal to one of them stops all.
    """
    stop = Stop(workers)

    def handle(number: int, frame: Any) -> None:
        if stop.is_requested:
            raise KeyboardInterrupt
        stop.is_requested = True
        say("stopping after this step; once more to stop at once")

    with handling(handle, signal.SIGINT, signal.SIGTERM):
        yield stop
