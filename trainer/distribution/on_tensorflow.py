"""Workers and replicas by `tf.distribute`."""

import functools
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.training import Distribution, ModelParallelConfig
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.workers import Workers

_LARGE_PRIME = 1_000_003  # keeps the seeds of replicas apart
_OF_LOSS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def connect(place: ProcessInfo, config: Distribution) -> Workers:
    """Connects to the other workers, or uses all devices of a single worker.

    Raises:
        ConfigError: The configuration has `model_parallel`, which only JAX supports
            here.
    """
    if isinstance(config, ModelParallelConfig):
        raise ConfigError(
            "training.distribution.kind=model_parallel: models are spread over devices "
            "on JAX alone. Set KERAS_BACKEND=jax, or choose data_parallel"
        )
    strategy = _strategy(place)
    return Workers() if strategy is None else StrategyWorkers(strategy, place)


# One strategy per process: two would mix up each other's collectives.
@functools.cache
def _strategy(place: ProcessInfo) -> tf.distribute.Strategy | None:
    if place.count > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if "TPU_NAME" in os.environ:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    devices = [
        device.name
        for device in tf.config.list_logical_devices("GPU")
        or tf.config.list_logical_devices("CPU")
    ]
    return tf.distribute.MirroredStrategy(devices) if len(devices) > 1 else None


class StrategyWorkers(Workers):
    """The replicas of a `tf.distribute` strategy.

    Args:
        strategy: The strategy.
        place: This worker's rank and the number of workers.
    """

    def __init__(self, strategy: tf.distribute.Strategy, place: ProcessInfo):
        super().__init__(place, strategy.num_replicas_in_sync)
        self.strategy = strategy
        self._sum = tf.function(self._sum_of_workers, autograph=False)

    def scope(self):
        return self.strategy.scope()

    def start_sum(self, numbers: Sequence[int]) -> tf.Tensor:
        return self._sum(tf.constant(np.array(numbers, np.int64)))

    def _sum_of_workers(self, numbers: tf.Tensor) -> tf.Tensor:
        def share() -> tf.Tensor:
            is_first = self._local_replica() == 0
            return self.add_up(tf.where(is_first, numbers, tf.zeros_like(numbers)))

        return self.first(self.strategy.run(share))

    def is_loss(self, error: BaseException) -> bool:
        of_nccl = isinstance(error, tf.errors.InternalError) and "NCCL" in str(error)
        return isinstance(error, _OF_LOSS) or of_nccl

    def run(self, function: Callable, *arguments: Any) -> Any:
        return self.strategy.run(function, arguments)

    def first(self, values: Any) -> Any:
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], values
        )

    def add_up(self, values: Any) -> Any:
        # all_reduce needs the tensors' device, which captured tensors lack.
        flat = [tf.identity(x) for x in tf.nest.flatten(values)]
        context = tf.distribute.get_replica_context()
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
        return tf.nest.pack_sequence_as(values, sums)

    def rows_of_replica(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        parts = self.local_replicas
        place = self._local_replica()
        return {
            name: tf.reshape(x, (parts, -1, *x.shape[1:]))[place]
            for name, x in batch.items()
        }

    def over_rows(self, function: Callable, batch: Mapping[str, tf.Tensor]) -> Any:
        rows = tf.shape(next(iter(batch.values())))[0]
        each = -(-rows // self.replicas)

        def part() -> Any:
            # The first rows are repeated after the last one, for parts of equal size.
            begin = _replica() * each
            places = tf.range(begin, begin + each) % rows
            found = function({name: tf.gather(x, places) for name, x in batch.items()})
            flat = [tf.identity(x) for x in tf.nest.flatten(found)]
            context = tf.distribute.get_replica_context()
            every = [context.all_gather(x, axis=0) for x in flat]
            return tf.nest.pack_sequence_as(found, every)

        every = self.first(self.strategy.run(part))
        return tf.nest.map_structure(lambda x: x[:rows], every)

    def sums_for(self, optimizer: keras.optimizers.Optimizer) -> None:
        # Keras would sum the gradients over replicas again, after the clipping.
        vars(optimizer)["_all_reduce_sum_gradients"] = lambda pairs: pairs

    @contextmanager
    def own_randomness(self, model: keras.Model) -> Generator[None, None, None]:
        # Between updates all replicas have the same state, as a checkpoint stores one.
        states = [
            variable
            for variable in model.non_trainable_variables
            if variable.path.endswith("seed_generator_state")
        ]
        shift = tf.stack([tf.cast(_replica(), tf.int64) * _LARGE_PRIME, 0])
        for state in states:
            state.assign_add(tf.cast(shift, state.dtype))
        yield
        for state in states:
            state.assign_sub(tf.cast(shift, state.dtype))

    def _local_replica(self) -> Any:
        return _replica() % self.local_replicas


def _replica() -> Any:
    return tf.distribute.get_replica_context().replica_id_in_sync_group
