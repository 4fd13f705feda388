"""Plots throughput and latency of the stages of a load test."""

from collections.abc import Sequence
from pathlib import Path

from transbeam.serving.loadtest.summary import LoadStage


def plot(stages: Sequence[LoadStage], file: Path, title: str) -> None:
    """Plots responses per second, and latencies on a logarithmic axis.

    Args:
        stages: At least one.
        file: The `.png`.
        title: The title above the plot.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    positions = range(len(stages))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    left.bar(positions, [stage.answers_per_second for stage in stages], color="#4477aa")
    left.set_title("answers per second")
    colors = ("#4477aa", "#228833", "#ccbb44", "#ee6677")
    for name, color in zip(stages[0].milliseconds, colors, strict=True):
        values = [stage.milliseconds[name] or float("nan") for stage in stages]
        right.plot(positions, values, marker="o", color=color, label=name)
    right.set_yscale("log")
    right.set_title("milliseconds until the answer")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_xticks(positions, [stage.load for stage in stages])
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
