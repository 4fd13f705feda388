"""The curves of the runs behind the table of tasks in RESULTS.md, in one picture.

    python -m bench.task_curves [--take runs/tasks_NAME ...]

`--take` keeps of a run what a curve needs, in `bench/curves/NAME.jsonl`: the loss of
all validations, and some of those of training. The picture, `bench/curves.svg`, has
all that were kept; runs whose names differ in a number at the end, such as `rte-17` and
`rte-18`, are seeds of one task.
"""

import argparse
import json
import math
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

CURVES = Path(__file__).parent / "curves"
PICTURE = CURVES.with_suffix(".svg")
POINTS = 100  # of a training, at most
COLUMNS = 3
TRAINING, VALIDATION = "C0", "C1"
SEED = re.compile(r"-\d+$")


def main() -> None:
    """Keeps the numbers of the runs that are named, and draws all that there are."""
    parser = argparse.ArgumentParser(prog="bench.task_curves", description=__doc__)
    parser.add_argument("--take", type=Path, nargs="+", default=[], metavar="RUN")
    for run in parser.parse_args().take:
        rows = thinned(read(run / "training/metrics.jsonl"))
        file = CURVES / f"{run.name.removeprefix('tasks_')}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    draw(sorted(CURVES.glob("*.jsonl")))


def read(file: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def thinned(rows: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """The losses alone: of training, every n-th, so that few are left."""
    training = [row for row in rows if "loss" in row]
    each = math.ceil(len(training) / POINTS)
    kept = [*training[each - 1 :: each], *(row for row in rows if "val_loss" in row)]
    return [
        {
            name: round(row[name], 4)
            for name in ("step", "loss", "val_loss")
            if name in row
        }
        for row in sorted(kept, key=lambda row: row["step"])
    ]


def draw(files: Sequence[Path]) -> None:
    """A small picture for each task, side by side, with the curves of all seeds."""
    tasks = {
        name: list(of_task)
        for name, of_task in groupby(files, lambda file: SEED.sub("", file.stem))
    }
    lines = math.ceil(len(tasks) / COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 2.6 * lines), layout="constrained")
    places = figure.subplots(lines, COLUMNS, squeeze=False)
    for (name, of_task), axes in zip(tasks.items(), places.flat, strict=False):
        for number, file in enumerate(of_task):
            rows, alpha = read(file), 1 - 0.3 * number
            curve(axes, rows, "loss", "training", TRAINING, alpha=alpha, linewidth=0.8)
            marks = {"marker": "o", "markersize": 3, "alpha": alpha}
            curve(axes, rows, "val_loss", "validation", VALIDATION, **marks)
        axes.set_title(name, fontsize="medium")
        axes.grid(alpha=0.3)
    for axes in places.flat[len(tasks) :]:
        axes.set_axis_off()
    handles, labels = places.flat[0].get_legend_handles_labels()
    places.flat[0].legend(handles[:2], labels[:2], fontsize="small")
    figure.supxlabel("step", fontsize="medium")
    figure.supylabel("loss of a target", fontsize="medium")
    figure.savefig(PICTURE, metadata={"Date": None})


def curve(
    axes: Axes, rows: Sequence[dict], name: str, label: str, color: str, **style: Any
) -> None:
    """One line of a picture."""
    points = [(row["step"], row[name]) for row in rows if name in row]
    axes.plot(*zip(*points, strict=True), label=label, color=color, **style)


if __name__ == "__main__":
    main()
