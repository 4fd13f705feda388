"""Charts for HTML pages, drawn by matplotlib as SVG."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from transbeam.configs.base.atomic_files import write_atomically

if TYPE_CHECKING:  # it takes half a second, and is for those who draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# They stand out from a white and from a dark background.
GRAY = "#8a97a5"
COLORS = ("#3b82c4", "#c8643a", "#7a9a2e", "#8f63b8")
COLORS += ("#2a9d8f", "#c2a12b", "#d1477a", "#8a7a6a")


def new_figure(height: float) -> "tuple[Figure, Axes]":
    """Returns a figure of a page's width, and axes with integer ticks on the x axis.

    Args:
        height: The figure's height in inches.
    """
    figure, (axes,) = new_panels([height])
    axes.locator_params(axis="x", integer=True)
    return figure, axes


def new_panels(heights: Sequence[float]) -> "tuple[Figure, Sequence[Axes]]":
    """Returns a figure of a page's width, and axes above each other with one x axis.

    Args:
        heights: The height of each in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, sum(heights)), layout="constrained")
    grid = figure.subplots(
        len(heights), squeeze=False, sharex=True, height_ratios=heights
    )
    panels: list[Axes] = grid[:, 0].tolist()
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GRAY)
        axes.tick_params(color=GRAY)
        axes.grid(axis="y", color=GRAY, alpha=0.3, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def as_svg(figure: "Figure", what: str) -> Markup:
    """Returns an `<svg>` element without background; CSS sets the color of its text.

    Args:
        figure: What is drawn.
        what: Description of the chart in words.
    """
    _, _, drawn = _svg_text(figure, transparent=True).partition("<svg")
    # Names of parts would stand twice on a page with two pictures.
    drawn = re.sub(r' (xmlns\S*="[^"]*"|id="[\w.]+_\d+")', "", drawn)
    return Markup("<svg role='img' aria-label='{}'{}").format(what, Markup(drawn))


def save_svg(figure: "Figure", path: Path) -> None:
    """Writes a figure on white as an SVG file.

    Args:
        figure: What is drawn.
        path: The file, in a folder that exists.

    Raises:
        ArtifactError: The file cannot be written.
    """
    text = _svg_text(figure, transparent=False)
    # Without the declaration of a document type, which names a server.
    write_atomically(path, text[text.index("<svg") :])


def _svg_text(figure: "Figure", transparent: bool) -> str:
    from matplotlib import rc_context

    written = io.StringIO()
    # The same figure has the same bytes, at any time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "transbeam"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=transparent, metadata=nothing)
    return written.getvalue()
