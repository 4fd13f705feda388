"""The part `pairs` of an analysis: attention between the two texts of a pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from transbeam.model.inspect.pair_attention import pair_attention
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
    TextBatch,
)
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.flow.pair_reading import (
    AnalyzedPairs,
    read_pair_file,
    read_pair_rows,
)
from transbeam.trainer.analysis.flow.roc_area import RocArea, roc_area

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("total", "normalized")
# Halves of the pairs need this many of each class for an interval.
_FEWEST = 10
_NUM_BEST = 5


@dataclass(frozen=True)
class _PairSums:
    """Attention between the texts of pairs, both directions averaged.

    Attributes:
        heads: Layer and number of each of the K heads.
        values: By measure, float64 (N, K).
        sizes: `|A| |B|` of each pair, float64 (N,).
    """

    heads: list[tuple[str, int]]
    values: dict[str, np.ndarray]
    sizes: np.ndarray


def analyze_pairs(
    context: AnalysisContext, *, pairs_file: Path | None = None, max_pairs: int = 1000
) -> AnalysisPart:
    """Measures how much each head attends from one text of a pair to the other.

    With the texts' tokens A and B, special tokens left out, and weights a:

    - `total` is the mean of both directions' sums, `(sum of a[i, j] + sum of a[j, i]) /
      2` over i in A and j in B. It grows with the texts' lengths.
    - `normalized` is `total / (|A| |B|)`, the mean weight of a pair of tokens.

    For labeled pairs, the area under the ROC curve says how well a head's measure tells
    the classes apart: 0.5 is chance, and below 0.5 the positive class has the smaller
    values. The largest area of many heads is too good by choice; so the best heads are
    chosen on every other pair, and their areas computed on the remaining ones. A
    baseline is the area of the lengths' product, which looks at no attention.

    Args:
        context: The model, and the texts if they are pairs.
        pairs_file: A table of pairs; see `read_pair_file`. None for the context's
            texts.
        max_pairs: Largest number of pairs of the file.

    Returns:
        The part: table `attention` (layer, head, measure, mean, and by class), table
        `areas` (layer, head, measure, area, low, high) of labeled pairs.

    Raises:
        ConfigError: The model reads no pairs, or has no attention weights of tokens.
        DataError: A row has one text only, or the file cannot be read.
    """
    pairs = _read(context, pairs_file, max_pairs)
    sums = _sum_pairs(context, pairs.texts)
    notes = [pairs.note] if pairs.note else []
    labels, areas = pairs.labels, {}
    if labels is not None and min(labels.sum(), (~labels).sum()) < 2 * _FEWEST:
        notes.append(
            f"no areas: {labels.sum():,} of {len(labels):,} pairs are of the class "
            f"{pairs.positive}; expected at least {2 * _FEWEST} of each class"
        )
        labels = None
    tables = {"attention": _make_table(sums, labels)}
    numbers: dict[str, Any] = {
        "pairs": len(pairs.texts),
        "source": pairs.texts.name,
        "positive_class": pairs.positive or None,
    }
    if labels is not None:
        areas = {name: roc_area(x, labels) for name, x in sums.values.items()}
        tables["areas"] = _make_area_table(sums.heads, areas)
        numbers["best_heads"] = _find_best(sums, labels)
        numbers["area_by_length"] = _area_by_length(sums, labels)
    return AnalysisPart(
        name="pairs",
        title="Attention between the texts of pairs",
        summary=_summarize(sums, numbers),
        numbers=numbers,
        tables=tables,
        figures={"heads": _draw(sums, areas)},
        notes=tuple(notes),
    )


def _read(
    context: AnalysisContext, pairs_file: Path | None, max_pairs: int
) -> AnalyzedPairs:
    config = context.config
    if pairs_file is None:
        names = getattr(config.objective, "labels", ())
        return read_pair_rows(context.texts, names)
    return read_pair_file(pairs_file, config.model, context.tokenizer, max_pairs)


def _sum_pairs(context: AnalysisContext, texts: AnalyzedTexts) -> _PairSums:
    """Runs the model over all pairs."""
    compute = tf.function(
        lambda *arguments: pair_attention(context.model, *arguments),
        reduce_retracing=True,
    )
    special = context.tokenizer.special
    frame = [i for i in (special.begin, special.end) if i is not None]
    heads: list[tuple[str, int]] = []
    values: dict[str, np.ndarray] = {}
    sizes = np.zeros(len(texts))
    longest = context.config.model.max_sequence_length
    batches = texts.batches(context.model, context.max_tokens, longest)
    with context.console.progress("pairs", len(texts), "pairs") as bar:
        for batch in batches:
            first, second = find_texts(texts, batch, frame)
            found = compute(batch.inputs, first, second)
            if not heads:
                heads = [
                    (layer, head)
                    for layer, x in found.items()
                    for head in range(x.to_first.shape[1])
                ]
                values = {name: np.zeros((len(texts), len(heads))) for name in MEASURES}
            total = np.concatenate(
                [(x.to_second + x.to_first).numpy() / 2 for x in found.values()], axis=1
            )
            size = np.maximum(first.sum(axis=1) * second.sum(axis=1), 1)
            sizes[batch.index] = size
            values["total"][batch.index] = total
            values["normalized"][batch.index] = total / size[:, None]
            bar.advance(len(batch.index))
    return _PairSums(heads, values, sizes)


def find_texts(
    texts: AnalyzedTexts, batch: TextBatch, frame: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the tokens of both texts of each pair in a batch.

    Args:
        texts: All pairs.
        batch: Some of them.
        frame: The ids of the special tokens around texts.

    Returns:
        int32 (B, T) for the first and for the second texts: 1 for their tokens, 0 for
        special tokens and padding.
    """
    found = np.zeros((2, *batch.inputs["token_ids"].shape), np.int32)
    for row, number in enumerate(batch.index):
        pair = texts.rows[number]
        is_text = ~np.isin(pair["token_ids"], frame)
        for segment in (0, 1):
            is_own = is_text & (pair["segment_ids"] == segment)
            found[segment, row, : len(is_own)] = is_own
    return found[0], found[1]


def _find_best(sums: _PairSums, labels: np.ndarray) -> list[dict[str, Any]]:
    """Chooses heads on one half of the pairs, and measures them on the other."""
    order = np.argsort(labels, kind="stable")  # both halves with as many of each class
    best = []
    for measure, values in sums.values.items():
        chosen = roc_area(values[order[::2]], labels[order[::2]]).area
        rest = roc_area(values[order[1::2]], labels[order[1::2]])
        for k in np.argsort(-np.abs(chosen - 0.5), kind="stable")[:_NUM_BEST]:
            layer, head = sums.heads[k]
            best.append(
                {
                    "layer": layer,
                    "head": head,
                    "measure": measure,
                    "area": round(float(rest.area[k]), 4),
                    "low": round(float(rest.low[k]), 4),
                    "high": round(float(rest.high[k]), 4),
                    "area_where_chosen": round(float(chosen[k]), 4),
                }
            )
    return best


def _area_by_length(sums: _PairSums, labels: np.ndarray) -> dict[str, float]:
    """Returns the area of `|A| |B|`, the baseline of both measures."""
    found = roc_area(sums.sizes[:, None], labels)
    return {name: round(float(x[0]), 4) for name, x in found._asdict().items()}


def _long(heads: Sequence[tuple[str, int]]) -> dict[str, pa.Array]:
    """Returns the columns that name heads and measures."""
    layers, numbers = zip(*(list(heads) * len(MEASURES)), strict=True)
    return {
        "layer": pa.array(layers, pa.string()),
        "head": pa.array(numbers, pa.int32()),
        "measure": pa.array(np.repeat(MEASURES, len(heads)).tolist(), pa.string()),
    }


def _make_table(sums: _PairSums, labels: np.ndarray | None) -> pa.Table:
    values = np.concatenate([sums.values[name] for name in MEASURES], axis=1)
    columns = _long(sums.heads) | {"mean": pa.array(values.mean(axis=0))}
    if labels is not None:
        columns["mean_positive"] = pa.array(values[labels].mean(axis=0))
        columns["mean_negative"] = pa.array(values[~labels].mean(axis=0))
    return pa.table(columns)


def _make_area_table(
    heads: Sequence[tuple[str, int]], areas: Mapping[str, RocArea]
) -> pa.Table:
    ends = {
        name: pa.array(np.concatenate([getattr(areas[m], name) for m in MEASURES]))
        for name in RocArea._fields
    }
    return pa.table(_long(heads) | ends)


def _summarize(sums: _PairSums, numbers: Mapping[str, Any]) -> str:
    mean = sums.values["total"].mean(axis=0)
    layer, head = sums.heads[int(mean.argmax())]
    text = (
        f"Head {head} of {layer} attends most from one text to the other: a weight of "
        f"{mean.max():.2f} per pair."
    )
    if best := numbers.get("best_heads"):
        top = max(best, key=lambda row: abs(row["area_where_chosen"] - 0.5))
        text += (
            f" The classes are separated best by head {top['head']} of {top['layer']} "
            f"({top['measure']}): area under the ROC curve {top['area']:.3f} "
            f"({top['low']:.3f} to {top['high']:.3f}), on pairs that it was not chosen "
            f"on; by the texts' lengths it is {numbers['area_by_length']['area']:.3f}."
        )
    return text


def _draw(sums: _PairSums, areas: Mapping[str, RocArea]) -> "Figure":
    """Draws a map of layers and heads for each measure: areas, or else means."""
    from matplotlib.figure import Figure

    layers = list(dict.fromkeys(layer for layer, _ in sums.heads))
    figure = Figure(figsize=(7.6, 1.4 + 0.25 * len(layers)), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), MEASURES, strict=True):
        shown = areas[measure].area if areas else sums.values[measure].mean(axis=0)
        grid = np.full((len(layers), max(head for _, head in sums.heads) + 1), np.nan)
        for (layer, head), value in zip(sums.heads, shown, strict=True):
            grid[layers.index(layer), head] = value
        limits = (
            {"cmap": "PuOr", "vmin": 0, "vmax": 1} if areas else {"cmap": "viridis"}
        )
        image = axes.imshow(grid, aspect="auto", **limits)
        axes.set_title(f"{measure}, {'area' if areas else 'mean'}", fontsize=9)
        axes.set_xlabel("head")
        axes.locator_params(axis="x", integer=True)
        axes.set_yticks(
            range(len(layers)),
            layers if axes.get_subplotspec().is_first_col() else [""] * len(layers),
            fontsize=7,
        )
        figure.colorbar(image, ax=axes)
    return figure
