"""`training.distribution`: data parallelism and model parallelism."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class DataParallelConfig:
    """Data parallelism: each device holds the model and processes part of each batch.

    It uses all accelerators of all workers; with a single device it has no effect.
    """

    kind: Literal["data_parallel"] = "data_parallel"


@dataclass(frozen=True, kw_only=True)
class ModelParallelConfig:
    """Tensor parallelism: a model too large for one device is sharded over several.

    Large matrices are sharded along heads, hidden units or the vocabulary (Shoeybi et
    al., 2019). A group of devices of one worker holds one copy of the model; each group
    processes part of the batch. On JAX only.
    """

    kind: Literal["model_parallel"] = "model_parallel"
    model_devices: int = option(
        "Number of devices that each copy of the model is sharded over.", minimum=2
    )


Distribution = DataParallelConfig | ModelParallelConfig
