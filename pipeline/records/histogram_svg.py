"""A histogram as an SVG picture."""

from collections.abc import Sequence

from markupsafe import Markup

from transbeam.pipeline.pages.pictures import COLORS, as_svg, new_figure

_MOST_BARS = 64


def bars(counts: Sequence[int], what: str, of: str) -> Markup:
    """Draws how many things have each value.

    Args:
        counts: At i, the number of items with the value i.
        what: The name of the value, below the axis.
        of: The name of the items, in the tooltips.

    Returns:
        An `<svg>` element; empty if all counts are 0.
    """
    if not any(counts):
        return Markup()
    # Neighboring values share a bar where a page has no room for all.
    step = -(-len(counts) // _MOST_BARS)
    edges = list(range(0, len(counts) + step, step))
    figure, axes = new_figure(1.8)
    values = range(len(counts))
    # A bar of one value stands above it, one of several between their ends.
    align = "left" if step == 1 else "mid"
    axes.hist(values, edges, weights=counts, align=align, rwidth=0.9, color=COLORS[0])
    axes.set_xlabel(what)
    axes.set_ylabel(of)
    return as_svg(figure, f"{of} by {what}")
