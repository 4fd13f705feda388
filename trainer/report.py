"""Pictures of a training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.files import write_atomically


def draw_loss(
    rows: Sequence[Mapping[str, float]], unigram_entropy: float, picture: Path
) -> None:
    """Draws training and validation loss against the step, as a PNG.

    The dashed line is what a model reaches that knows how frequent each target is and
    nothing else.

    Args:
        rows: The lines of `metrics.jsonl`.
        unigram_entropy: Where that line is, in nats.
        picture: The file to write.
    """
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, label, style in (
        ("loss", "training", {"color": "#9db7d5", "linewidth": 1.2}),
        ("val_loss", "validation", {"color": "#1f4e8c", "linewidth": 2, "marker": "o"}),
    ):
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, markersize=4, **style)
    axes.axhline(
        unigram_entropy,
        color="#b5542b",
        linestyle="--",
        linewidth=1.2,
        label=f"unigram entropy, {unigram_entropy:.2f}",
    )
    axes.set_xlabel("step")
    axes.set_ylabel("nats per target")
    axes.set_title("Loss", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(picture, buffer.getvalue())
