"""Workers and replicas by `jax.sharding`, in layouts of `keras.distribution`.

All devices of all workers form one mesh, and an update is one program on the whole
mesh: XLA derives the collectives from the shardings of batch rows and weights.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.training import Distribution, ModelParallelConfig
from transbeam.configs.system.native_output import output_on_error
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.workers import Workers

_ROWS, _MODEL = "rows", "model"
# The sharded axis of each weight (Megatron-LM): column-parallel projections keep their
# outputs on one device, up to the row-parallel matrix whose sums go over all devices.
_CUT = (
    (re.compile(r"/(query|key|value|gate|intermediate)/kernel$"), 1),
    (re.compile(r"/(query|key|value|gate|intermediate)/bias$"), 0),
    (re.compile(r"_(attention|layer_\d+/feedforward)/output/kernel$"), 0),
    (re.compile(r"token_embedding/embeddings$"), 0),
    (re.compile(r"^logits/kernel$"), 1),
)
_OF_LOSS = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "heartbeat", "barrier")


def connect(place: ProcessInfo, config: Distribution, address: str) -> Workers:
    """Connects to the other workers, and uses all devices of this worker.

    Args:
        place: This worker's rank and the number of workers.
        config: The configuration of the distribution over devices.
        address: HOST:PORT of worker 0.

    Raises:
        ConfigError: The number of devices of a worker is not a multiple of
            `model_devices`.
    """
    if place.count > 1 and not jax.distributed.is_initialized():
        # JAX's own SIGTERM handler would replace ours.
        jax.config.update("jax_enable_preemption_service", False)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            address, place.count, place.number, cluster_detection_method="deactivate"
        )
    spread = config.model_devices if isinstance(config, ModelParallelConfig) else 1
    _check_devices(place, spread)
    if jax.device_count() == 1:
        return Workers()
    workers = MeshWorkers(place, model_devices=spread)
    with output_on_error():  # Gloo prints a line to stdout when it first connects
        workers.wait()
    return workers


def _check_devices(place: ProcessInfo, spread: int) -> None:
    if spread == 1:
        return
    # A model is not split over workers: the devices of one worker connect fastest.
    if jax.local_device_count() % spread:
        raise ConfigError(
            f"training.distribution.model_devices={spread}: worker {place.number} has "
            f"{jax.local_device_count()} devices, which cannot be divided into groups "
            f"of {spread}"
        )


class _Layouts(keras.distribution.ModelParallel):
    """Layout of each weight: sharded over the devices of a model, or replicated."""

    def __init__(self, mesh: keras.distribution.DeviceMesh, spread: int):
        super().__init__(
            layout_map=keras.distribution.LayoutMap(mesh),
            batch_dim_name=_ROWS,
            auto_shard_dataset=False,
        )
        self._spread = spread

    def get_variable_layout(self, variable):
        for pattern, axis in _CUT:
            if not pattern.search(variable.path) or variable.shape[axis] % self._spread:
                continue
            axes: list[str | None] = [None] * len(variable.shape)
            axes[axis] = _MODEL
            return keras.distribution.TensorLayout(axes, self.device_mesh)
        return super().get_variable_layout(variable)


class MeshWorkers(Workers):
    """The replicas of a mesh of devices.

    Args:
        place: This worker's rank and the number of workers.
        devices: The devices of all workers; by default all devices that JAX lists.
        model_devices: Number of devices that share one copy of the model.
    """

    def __init__(
        self,
        place: ProcessInfo,
        devices: Sequence[Any] | None = None,
        model_devices: int = 1,
    ):
        devices = sorted(
            devices or jax.devices(), key=lambda one: (one.process_index, one.id)
        )
        super().__init__(place, len(devices) // model_devices)
        names = np.array([f"{one.platform}:{one.id}" for one in devices])
        mesh = keras.distribution.DeviceMesh(
            (self.replicas, model_devices),
            [_ROWS, _MODEL],
            names.reshape(-1, model_devices),
        )
        self._distribution = _Layouts(mesh, model_devices)
        mesh = mesh.backend_mesh
        self.whole = NamedSharding(mesh, PartitionSpec())
        self.by_row = NamedSharding(mesh, PartitionSpec(_ROWS))
        self.by_row_of_part = NamedSharding(mesh, PartitionSpec(None, _ROWS))
        self._sum = jax.jit(lambda x: jnp.sum(x, axis=0), out_shardings=self.whole)

    def scope(self) -> AbstractContextManager[Any]:
        return self._distribution.scope()

    def start_sum(self, numbers: Sequence[int]) -> jax.Array:
        mine = np.zeros((self.local_replicas, len(numbers)), np.int32)
        mine[0] = numbers
        return self._sum(jax.make_array_from_process_local_data(self.by_row, mine))

    def is_loss(self, error: BaseException) -> bool:
        may_be = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
        return may_be and any(sign in str(error) for sign in _OF_LOSS)

    def shared(self, rows: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Assembles a global batch, to which each worker contributes its own rows."""
        return {
            name: jax.make_array_from_process_local_data(self.by_row, np.asarray(x))
            for name, x in rows.items()
        }

    def shared_by_all(self, batch: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Shards a batch that every worker holds in full over the replicas, by rows.

        The first rows are repeated after the last one, to divide the batch equally.
        """
        rows = len(next(iter(batch.values())))
        places = np.arange(-(-rows // self.replicas) * self.replicas) % rows
        return {name: self._spread(np.asarray(x)[places]) for name, x in batch.items()}

    def _spread(self, x: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(x.shape, self.by_row, lambda at: x[at])

    def in_parts(self, batch: Mapping[str, Any], parts: int) -> dict[str, Any]:
        """Splits a batch into micro-batches with equally many rows of every replica."""

        def cut(x):
            shape = x.shape[1:]
            x = jnp.reshape(x, (self.replicas, parts, -1, *shape))
            x = jnp.reshape(jnp.swapaxes(x, 0, 1), (parts, -1, *shape))
            return jax.lax.with_sharding_constraint(x, self.by_row_of_part)

        return {name: cut(x) for name, x in batch.items()}
