"""The losses of a training with our kernels, without them, and with another seed.

    python -m bench.kernel_curves CONFIG [--steps 2000] [--every 250] [--set KEY=VALUE]

Three trainings one after another, each in a process of its own: with kernels, without
them (`plain`) on the very same batches, and with kernels and the next seed. How far the
second is from the first says what the kernels change, the third what chance does. For
each seed `transbeam data` makes the records first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from bench.pairs import heading, row
from transbeam import main as transbeam
from transbeam.configs.loader.yaml_config import load_run


def main() -> None:
    """Prints the validation losses side by side; or does one of the trainings."""
    parser = argparse.ArgumentParser(prog="bench.kernel_curves", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        from transbeam.model.kernels.dispatch import (
            plain,  # loads TensorFlow, after it is made quiet
        )

        words = [given.config, "--run", given.run, *(f"--set={s}" for s in given.set)]
        with plain() if given.plain else nullcontext():
            sys.exit(transbeam(["train", *map(str, words)]))
    keys = [
        *given.set,
        f"training.steps={given.steps}",
        f"training.evaluate_every={given.every}",
    ]
    seed = load_run(given.config, keys, with_model=True).seed
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        kernels = losses(given.config, [*keys, f"seed={seed}"], first)
        for stage in first.iterdir():
            if stage.name != "data":
                stage.rename(Path(scratch) / stage.name)
        without = losses(given.config, [*keys, f"seed={seed}"], first, "--plain")
        chance = losses(given.config, [*keys, f"seed={seed + 1}"], second)
    print(
        heading("step", "kernels", "plain", "apart", f"seed {seed + 1}", "apart again")
    )
    for step, loss in kernels.items():
        others = (without[step], chance[step])
        cells = [s for o in others for s in (f"{o:.4f}", f"{abs(o - loss):.1e}")]
        print(row(f"{step:,}", f"{loss:.4f}", *cells))


def losses(config: Path, keys: list[str], run: Path, *words: str) -> dict[int, float]:
    """The validation losses of a training, by their steps."""
    rest = ["--run", str(run), *(f"--set={key}" for key in keys)]
    data = ["-c", "import sys, transbeam; sys.exit(transbeam.main())", "data"]
    train = ["-m", "bench.kernel_curves"]
    for program, more in ((data, ()), (train, words)):
        command = [sys.executable, *program, str(config), *rest, *more]
        subprocess.run(command, check=True)
    lines = (run / "training/metrics.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {one["step"]: one["val_loss"] for one in rows if "val_loss" in one}


if __name__ == "__main__":
    main()
