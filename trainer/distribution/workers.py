"""The workers of a training: which of them this process is, and what they agree on.

A *worker* is a process. A *replica* is one copy of the model: on a device, or spread
over a few. All replicas train on the same batch, each on a part of its rows, and
change their copies alike. The first worker is the *chief*: it alone writes into the
run's folder, which all of them read.

Who they are is said by the environment (docs/distributed.md). Without a word there,
the training is on one worker, and on all accelerators that this one has.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.process_info import ProcessInfo

# So many steps later the answers are there, and reading them waits for no device.
_STEPS_TO_HEAR = 2
_ONLY = ProcessInfo()


class Workers:
    """One worker with one device; the backends have subclasses for more.

    Attributes:
        place: Which worker this is.
        replicas: How many copies of the model there are, of all workers.
    """

    def __init__(self, place: ProcessInfo = _ONLY, replicas: int = 1):
        self.place = place
        self.replicas = replicas
        self._heard: deque[Any] = deque()

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes."""
        return self.place.is_chief

    @property
    def local_replicas(self) -> int:
        """The copies of the model that this worker has."""
        return self.replicas // self.place.count

    def scope(self) -> AbstractContextManager[Any]:
        """Inside, variables are made where all replicas find them."""
        return nullcontext()

    def check_batch(self, config: TrainingConfig) -> None:
        """Refuses batches that the replicas cannot share.

        Raises:
            ConfigError: The parts would not be of one size.
        """
        parts = self.replicas * config.accumulation
        if config.batch_size % parts:
            told = f"{self.replicas} replicas of the model"
            if self.place.count > 1:
                told += f" ({self.place.count} workers, {self.local_replicas} each)"
            if config.accumulation > 1:
                told += f" in {config.accumulation} micro-batches each"
            raise ConfigError(
                f"training.batch_size: {config.batch_size} records cannot be shared "
                f"equally by {told}. Choose a multiple of {parts}"
            )

    def agree(self, fact: int, told: str) -> None:
        """Waits for all workers; what is so for one of them must be so for all.

        Args:
            fact: Below 2^31.
            told: What the number is of, for the error.

        Raises:
            ArtifactError: The workers differ.
        """
        facts = self.gather(fact)
        if len(set(facts)) > 1:
            listed = ", ".join(f"{x} at worker {i}" for i, x in enumerate(facts))
            raise ArtifactError(
                f"the workers differ in {told}: {listed}. They must be started with "
                "the same configuration, version and records, on one run folder that "
                "all of them see"
            )

    def from_chief(self, fact: int) -> int:
        """Waits for all workers; the chief's number, below 2^31, at each of them."""
        return self.gather(fact)[0]

    def told(self) -> str:
        """What there is to say of them in a line; nothing of one device."""
        if self.replicas == 1:
            return ""
        workers = f" at {self.place.count} workers" if self.place.count > 1 else ""
        return f"; {self.replicas} replicas{workers}"

    def wait(self) -> None:
        """Until all workers are here."""
        self.gather(0)

    def gather(self, fact: int) -> list[int]:
        """A number of each worker, below 2^31, in their order."""
        if self.place.count == 1:
            return [fact]
        mine = [0] * self.place.count
        mine[self.place.number] = fact
        return self.read(self.start_sum(mine))

    def hears(self, asked: bool) -> bool:
        """Whether any worker was asked, the same answer at all of them.

        To be called at each step. With several workers the answer is two steps old, so
        that no device is waited for.
        """
        if self.place.count == 1:
            return asked
        self._heard.append(self.start_sum([int(asked)]))
        if len(self._heard) <= _STEPS_TO_HEAR:
            return False
        return self.read(self._heard.popleft())[0] > 0

    # What follows is called in the graphs of TensorFlow; see `StrategyWorkers`.

    def run(self, function: Callable, *arguments: Any) -> Any:
        """A function on each replica."""
        return function(*arguments)

    def first(self, values: Any) -> Any:
        """What the first replica of this worker gave."""
        return values

    def add_up(self, values: Any) -> Any:
        """On a replica: nested sums over all replicas."""
        return values

    def rows_of_replica(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """On a replica: its part of the rows that this worker has."""
        return batch

    def over_rows(self, function: Callable, batch: Mapping[str, Any]) -> Any:
        """A function of rows, each replica on a part of them; the results of all."""
        return function(batch)

    def sums_for(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Tells an optimizer that the gradients it will get are added up already."""

    def own_randomness(self, model: keras.Model) -> AbstractContextManager[Any]:
        """Inside, on a replica: its dropout is not that of the others."""
        return nullcontext()

    def start_sum(self, numbers: Sequence[int]) -> Any:
        """Begins to add up numbers over all workers; `read` has them when needed."""
        raise NotImplementedError

    def read(self, sums: Any) -> list[int]:
        """What `start_sum` began."""
        return [int(x) for x in keras.ops.convert_to_numpy(sums)]

    def is_loss(self, error: BaseException) -> bool:
        """Whether an error of the backend says that another worker is gone."""
        return False


ALONE = Workers()
