"""`training.distribution`: data parallelism and model parallelism."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class DataParallelConfig:
    """Each device has the whole model and a part of the rows of every batch.

    It uses all accelerators of all workers; with a single device it has no effect.
    """

    kind: Literal["data_parallel"] = "data_parallel"


@dataclass(frozen=True, kw_only=True)
class ModelParallelConfig:
    """Some devices have one model between them: for weights that fill more than one.

    Large matrices are sharded along heads, hidden units or the vocabulary (Shoeybi et
    al., 2019). A group of devices of one worker holds one model; the groups share the
    rows of a batch. On JAX only.
    """

    kind: Literal["model_parallel"] = "model_parallel"
    model_devices: int = option("Devices that one model is spread over.", minimum=2)


Distribution = DataParallelConfig | ModelParallelConfig
