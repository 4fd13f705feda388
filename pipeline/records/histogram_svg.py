"""Histograms as SVG, for pages that need no script and no network."""

import html
from collections.abc import Sequence

import numpy as np

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 180, 60, 36, 14
_MOST_BARS = 64


def bars(counts: Sequence[int], what: str, of: str) -> str:
    """Draws a histogram.

    Args:
        counts: At i, the number of items with the value i.
        what: The name of the value, below the axis.
        of: The name of the items, in the tooltips.

    Returns:
        An `<svg>` element; empty if all counts are 0.
    """
    groups, step = _grouped(np.asarray(counts, np.int64))
    if not groups.sum():
        return ""
    wide = (_WIDTH - _LEFT) / len(groups)
    tall = _HEIGHT - _BOTTOM - _TOP
    peak = groups.max()
    drawn = []
    for place, count in enumerate(groups.tolist()):
        height = tall * count / peak
        first, last = place * step, (place + 1) * step - 1
        values = f"{first}" if step == 1 else f"{first} to {last}"
        drawn.append(
            f"<rect x='{_LEFT + place * wide:.1f}' y='{_TOP + tall - height:.1f}' "
            f"width='{max(wide - 1, 0.5):.1f}' height='{height:.1f}'>"
            f"<title>{values} {html.escape(what)}: {count:,} {html.escape(of)}</title>"
            "</rect>"
        )
    base = _TOP + tall
    labels = [
        _text(_LEFT - 6, _TOP + 10, f"{peak:,}", "end"),
        _text(_LEFT - 6, base, "0", "end"),
        _text(_LEFT, base + 16, "0", "start"),
        _text(_WIDTH, base + 16, f"{len(groups) * step - 1:,}", "end"),
        _text((_LEFT + _WIDTH) / 2, base + 30, what, "middle"),
    ]
    name = html.escape(f"{of} by {what}")
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='{name}'>"
        f"{''.join(drawn)}{''.join(labels)}</svg>"
    )


def _grouped(counts: np.ndarray) -> tuple[np.ndarray, int]:
    """Groups adjacent values so that at most `_MOST_BARS` bars are drawn.

    Example:
    >>> _grouped(np.ones(100, np.int64))[0][:3], _grouped(np.ones(100, np.int64))[1]
    (array([2, 2, 2]), 2)
    """
    step = -(-len(counts) // _MOST_BARS) or 1
    padded = np.zeros(-(-len(counts) // step) * step, np.int64)
    padded[: len(counts)] = counts
    return padded.reshape(-1, step).sum(axis=1), step


def _text(x: float, y: float, content: str, anchor: str) -> str:
    escaped = html.escape(content)
    return f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}'>{escaped}</text>"
