"""The workers of a training: this process's rank, and collectives between them.

A *worker* is a process. A *replica* is one copy of the model: on a device, or spread
over a few. The rows of each batch are divided among the replicas, and all replicas
apply the same update to their copies. The first worker is the *chief*, the only worker
that writes into the run's folder; all workers read the folder.

Environment variables define the workers (docs/distributed.md). Without them, the
training uses one worker and all of its accelerators.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.process_info import ProcessInfo

# After this many steps a sum is complete, so reading it does not wait for a device.
_STEPS_OF_A_SUM = 2
_ONLY = ProcessInfo()


class Workers:
    """One worker with one device; subclasses implement more workers or devices.

    Attributes:
        place: This worker's rank and the number of workers.
        replicas: Number of model copies over all workers.
    """

    def __init__(self, place: ProcessInfo = _ONLY, replicas: int = 1):
        self.place = place
        self.replicas = replicas
        self._stops: deque[Any] = deque()

    @property
    def is_chief(self) -> bool:
        """True for the one worker that writes files."""
        return self.place.is_chief

    @property
    def local_replicas(self) -> int:
        """Number of model copies on this worker."""
        return self.replicas // self.place.count

    def scope(self) -> AbstractContextManager[Any]:
        """A context in which variables are created on all replicas."""
        return nullcontext()

    def check_batch(self, config: TrainingConfig) -> None:
        """Checks that the replicas can share batches equally.

        Raises:
            ConfigError: The replicas' parts of a batch would differ in size.
        """
        parts = self.replicas * config.accumulation
        if config.batch_size % parts:
            parties = f"{self.replicas} replicas of the model"
            if self.place.count > 1:
                parties += f" ({self.place.count} workers, {self.local_replicas} each)"
            if config.accumulation > 1:
                parties += f" in {config.accumulation} micro-batches each"
            raise ConfigError(
                f"training.batch_size: {config.batch_size} records cannot be shared "
                f"equally by {parties}. Choose a multiple of {parts}"
            )

    def agree(self, fact: int, meaning: str) -> None:
        """Waits for all workers, and raises an error if a number differs among them.

        Args:
            fact: The integer that this worker reports, less than 2^31.
            meaning: The meaning of the number, for the error message.

        Raises:
            ArtifactError: The workers differ.
        """
        facts = self.gather(fact)
        if len(set(facts)) > 1:
            listed = ", ".join(f"{x} at worker {i}" for i, x in enumerate(facts))
            raise ArtifactError(
                f"the workers differ in {meaning}: {listed}. They must be started with "
                "the same configuration, version and records, on one run folder that "
                "all of them see"
            )

    def from_chief(self, fact: int) -> int:
        """Waits for all workers; returns the chief's number, below 2^31, on each."""
        return self.gather(fact)[0]

    def describe(self) -> str:
        """Describes the replicas for a progress line; empty for a single one."""
        if self.replicas == 1:
            return ""
        workers = f" at {self.place.count} workers" if self.place.count > 1 else ""
        return f"; {self.replicas} replicas{workers}"

    def wait(self) -> None:
        """Waits until all workers have called it: a barrier."""
        self.gather(0)

    def gather(self, fact: int) -> list[int]:
        """Gathers a number of each worker, below 2^31, in the workers' order."""
        if self.place.count == 1:
            return [fact]
        mine = [0] * self.place.count
        mine[self.place.number] = fact
        return self.read(self.start_sum(mine))

    def any_stop(self, is_requested: bool) -> bool:
        """Returns whether any worker requested a stop: the same result on all workers.

        Every worker must call this method at each step. With several workers the result
        is two steps old, so that the call does not wait for a device.
        """
        if self.place.count == 1:
            return is_requested
        self._stops.append(self.start_sum([int(is_requested)]))
        if len(self._stops) <= _STEPS_OF_A_SUM:
            return False
        return self.read(self._stops.popleft())[0] > 0

    # The methods from here to `own_randomness` are called in TensorFlow graphs; see
    # `StrategyWorkers`.

    def run(self, function: Callable, *arguments: Any) -> Any:
        """Runs a function on each replica."""
        return function(*arguments)

    def first(self, values: Any) -> Any:
        """Results of the first replica of this worker."""
        return values

    def add_up(self, values: Any) -> Any:
        """Sums nested values over all replicas; called on a replica."""
        return values

    def rows_of_replica(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """This replica's part of the worker's rows; called on a replica."""
        return batch

    def over_rows(self, function: Callable, batch: Mapping[str, Any]) -> Any:
        """Applies a function to rows, split over the replicas; returns all results."""
        return function(batch)

    def sums_for(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Configures an optimizer for gradients that replicas have already summed."""

    def own_randomness(self, model: keras.Model) -> AbstractContextManager[Any]:
        """A context in which dropout differs between the replicas."""
        return nullcontext()

    def start_sum(self, numbers: Sequence[int]) -> Any:
        """Starts a sum of numbers over all workers; `read` waits for its result."""
        raise NotImplementedError

    def read(self, sums: Any) -> list[int]:
        """The result of a sum that `start_sum` started."""
        return [int(x) for x in keras.ops.convert_to_numpy(sums)]

    def is_loss(self, error: BaseException) -> bool:
        """Returns whether an error of the backend means that another worker is gone."""
        return False


ALONE = Workers()
