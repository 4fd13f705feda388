"""The dtype of a training's bfloat16 products, one for all workers and attempts."""

from pathlib import Path

from transbeam.configs.cli.console import Console
from transbeam.model.kernels.matmul_dtype import MatmulChoice, choose_matmul_dtype
from transbeam.model.kernels.matmul_measurement import DTYPES
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.loop.checkpoint import list_checkpoints, read_matmul_dtype


def agree_on_matmul(checkpoints: Path, workers: Workers, console: Console) -> str:
    """Decides what bfloat16 matrices are multiplied in, for all workers.

    A training that goes on keeps what its last checkpoint was made with, or it would
    not have the bits of one that was never stopped. A new one takes what is faster on
    the chief's machine.

    Args:
        checkpoints: The folder of the training's.
        workers: All that train.
        console: Is told, and warned if the measurement failed.

    Returns:
        `bfloat16`, or `float32` if they are widened.

    Raises:
        ArtifactError: The last checkpoint is damaged.
        ConfigError: See `choose_matmul_dtype`.
    """
    dtype = DTYPES[0]
    if workers.is_chief:
        choice = _kept(checkpoints) or choose_matmul_dtype()
        (console.warn if choice.failed else console.say)(str(choice))
        dtype = choice.dtype
    return DTYPES[workers.from_chief(DTYPES.index(dtype))]


def _kept(folder: Path) -> MatmulChoice | None:
    for path in list_checkpoints(folder)[-1:]:
        if (dtype := read_matmul_dtype(path)) is not None:
            return MatmulChoice(dtype, f"they were for {path}")
    return None
