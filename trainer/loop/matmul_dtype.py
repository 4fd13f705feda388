"""Chooses the dtype of bfloat16 matrix products, equal on all workers and restarts."""

from pathlib import Path

from transbeam.configs.cli.console import Console
from transbeam.model.kernels.matmul_dtype import MatmulChoice, choose_matmul_dtype
from transbeam.model.kernels.matmul_measurement import DTYPES
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.loop.checkpoint import list_checkpoints, read_matmul_dtype


def agree_on_matmul(checkpoints: Path, workers: Workers, console: Console) -> str:
    """Chooses the dtype in which all workers multiply bfloat16 matrices.

    A resumed training keeps the dtype of its last checkpoint: otherwise its results
    would not be bitwise equal to an uninterrupted training. A new one takes the dtype
    that is faster on the chief's machine.

    Args:
        checkpoints: The folder of the training's checkpoints.
        workers: All workers of the training.
        console: Prints the choice, as a warning if the measurement failed.

    Returns:
        `bfloat16`, or `float32` if the factors are widened.

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
