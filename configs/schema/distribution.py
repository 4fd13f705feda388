"""`training.distribution`: how the devices of a training share its work."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class DataParallelConfig:
    """Each device has the whole model and a part of the rows of every batch.

    It takes all accelerators that there are, of all workers; on a single device there
    is nothing to share.
    """

    kind: Literal["data_parallel"] = "data_parallel"


@dataclass(frozen=True, kw_only=True)
class ModelParallelConfig:
    """Some devices have one model between them: for weights that fill more than one.

    Large matrices are cut along heads, hidden units or the vocabulary (Shoeybi et al.,
    2019). Groups of devices, each of one worker, share the rows of a batch like single
    devices. On JAX.
    """

    kind: Literal["model_parallel"] = "model_parallel"
    model_devices: int = option("Devices that one model is spread over.", minimum=2)


Distribution = DataParallelConfig | ModelParallelConfig
