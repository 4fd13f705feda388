"""Two processes beside one on each backend: how far apart a training is.

    python -m bench.workers

Trains `configs/tiny/causal.yaml` (AdamW, 30 steps of batch 16 in two micro-batches, no
dropout) by one process and by two on the loopback, and tells the largest difference of
every logged figure and of the weights at the end, relative to the largest of either.
"""

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from bench.pairs import heading, row
from tests.e2e.test_workers import Job, ends
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.stage import data
from transbeam.trainer.loop.metrics_file import read_metrics

CONFIG = Path(__file__).parents[1] / "configs/tiny/causal.yaml"
KEYS = (
    "training.steps=30",
    "training.schedule.warmup_steps=5",
    "training.schedule.peak=0.005",
    "training.batch_size=16",
    "training.accumulation=2",
    "training.log_every=1",
    "training.evaluate_every=10",
    "training.deterministic=true",
    "model.dropout=0.0",
    "model.attention.dropout=0.0",
)
FIGURES = ("loss", "val_loss", "gradient_norm")


def main() -> None:
    """Makes the records once, trains four times, and prints a row for each backend."""
    print(heading("backend", *FIGURES, "weights at the end"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        records = made_records(folder)
        for backend in ("tensorflow", "jax"):
            one, two = (
                trained(records, backend, folder / f"{backend}_{workers}", workers)
                for workers in (1, 2)
            )
            logs = read_metrics(one.training), read_metrics(two.training)
            apart = [largest(*(figures(log, name) for log in logs)) for name in FIGURES]
            apart.append(largest(weights_of(one), weights_of(two)))
            print(row(backend, *(f"{difference:.1e}" for difference in apart)))


def made_records(folder: Path) -> Invocation:
    """Runs the data job of the tiny configuration."""
    made = Invocation(
        config=load_run(CONFIG),
        config_file=CONFIG,
        overrides=(),
        run_folder=folder / "records",
        console=Console(quiet=True),
        workers=1,
        beam_options=(),
    )
    data(made)
    return made


def trained(records: Invocation, backend: str, folder: Path, workers: int) -> Job:
    """Trains in a folder of its own.

    Raises:
        RuntimeError: A process failed; the message is what it said.
    """
    job = Job(records, backend, folder)
    settings = [word for key in KEYS for word in ("--set", key)]
    for code, told in ends(job.start(workers, *([settings] * workers))):
        if code:
            raise RuntimeError(told)
    return job


def figures(log: list[dict], name: str) -> np.ndarray:
    """One figure of all steps that have it."""
    return np.array([line[name] for line in log if name in line])


def weights_of(job: Job) -> np.ndarray:
    """The model's weights at the end, behind one another; not its random seeds."""
    state = load_file(job.training / "checkpoints/step-00000030/state.safetensors")
    kept = [
        state[name].ravel()
        for name in sorted(state)
        if name.startswith("model/") and state[name].dtype == np.float32
    ]
    return np.concatenate(kept)


def largest(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, as a share of the largest number of `one`."""
    if one.shape != other.shape or not one.size:
        raise ValueError(f"{one.shape} and {other.shape} cannot be compared")
    return float(np.abs(one - other).max() / np.abs(one).max())


if __name__ == "__main__":
    main()
