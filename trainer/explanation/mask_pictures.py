"""Pictures of the tokens that each token sees, in each kind of attention."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from transbeam.configs.schema.attention import Attention
from transbeam.model.inspect.attended_pairs import attended_pairs, attention_of_shape
from transbeam.model.stack.stack_spec import StackSpec
from transbeam.pipeline.pages.pictures import COLORS
from transbeam.trainer.explanation.picture import Picture, new_panels, set_titles

# Shares of a row that the documents of an example take; the rest is padding.
_SHARES = (0.25, 0.4, 0.25)
_PREFIX = 0.25
_NOTES = {
    "full": "Every token sees every other one.",
    "sliding_window": "A token sees those nearby; each further block extends that.",
    "global_window": "A window, and the first tokens of a document, which see all "
    "others and are seen by them (Longformer).",
    "block_sparse": "Blocks of tokens see their neighbors, the outermost blocks and "
    "some random ones, which differ by head (BigBird); shown is what any head sees.",
    "low_rank": "Keys and values of all tokens are summed up in a few vectors, through "
    "which every token sees all others (Linformer).",
    "kernel": "Sums over features of the keys take the place of scores; through them "
    "every token sees all others (Performer).",
}


def one_document(length: int) -> dict[str, np.ndarray]:
    """A row of one document, without padding.

    Example:
    >>> one_document(3)["padding_mask"].tolist()
    [[1, 1, 1]]
    """
    return {"padding_mask": np.ones((1, length), "int32")}


def packed_documents(length: int) -> dict[str, np.ndarray]:
    """A row of three documents and padding.

    Example:
    >>> row = packed_documents(10)
    >>> row["document_ids"].tolist(), row["position_ids"].tolist()
    ([[1, 1, 2, 2, 2, 2, 3, 3, 0, 0]], [[0, 1, 0, 1, 2, 3, 0, 1, 0, 0]])
    """
    sizes = [max(int(share * length), 1) for share in _SHARES]
    documents = np.zeros((1, length), "int32")
    positions = np.zeros((1, length), "int32")
    begin = 0
    for number, size in enumerate(sizes, start=1):
        documents[0, begin : begin + size] = number
        positions[0, begin : begin + size] = np.arange(size)
        begin += size
    return {"document_ids": documents, "position_ids": positions}


def with_prefix(length: int) -> dict[str, np.ndarray]:
    """A row of one document whose first quarter is a bidirectional prefix."""
    is_prefix = np.arange(length) < max(int(_PREFIX * length), 1)
    return {**one_document(length), "prefix_mask": is_prefix[None].astype("int32")}


def draw_masks(
    spec: StackSpec,
    rows: Mapping[str, Mapping[str, Any]],
    attention: Attention | None = None,
    others: Mapping[str, tuple[StackSpec, Mapping[str, Any]]] | None = None,
) -> Picture:
    """Draws which tokens each token sees, in a panel for each row.

    Args:
        spec: The stack.
        rows: Masks and positions of each row, by the panel's title.
        attention: Another attention config than the stack's.
        others: Further panels of other stacks with the same attention, by title: the
            stack, and the row.
    """
    attention = attention or spec.attention
    panels = {title: (spec, row) for title, row in rows.items()} | dict(others or {})
    figure, places = new_panels(len(panels), height=2.7 if len(panels) < 3 else 2.2)
    for place, (title, (stack, row)) in zip(places, panels.items(), strict=True):
        pairs = attended_pairs(attention_of_shape(stack, attention), dict(row))
        length = next(iter(row.values())).shape[1]
        _draw_pairs(place, pairs, length, title)
    kind = attention.kind
    return Picture(f"attention_{kind}", f"attention: {kind}", _NOTES[kind], figure)


def _draw_pairs(place: Any, pairs: np.ndarray, length: int, title: str) -> None:
    from matplotlib.colors import ListedColormap

    place.imshow(
        pairs,
        cmap=ListedColormap(["#8a97a51a", COLORS[0]]),
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(0, length, length, 0),
    )
    set_titles(place, title, ("is seen", "sees"))
    place.locator_params(nbins=4, integer=True)
