"""Tables and the figure of feed-forward units."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from transbeam.model.inspect.neurons import ValueTokens
from transbeam.pipeline.pages.pictures import COLORS, new_figure
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.neurons.unit_agreement import Agreement
from transbeam.trainer.analysis.neurons.unit_statistics import LayerUnits, is_decoder
from transbeam.trainer.analysis.vectors.occurrences import (
    Occurrence,
    show_occurrences,
    token_rows,
)
from transbeam.trainer.metrics.confidence_intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tabulate_layers(
    found: Mapping[str, LayerUnits],
    active: Mapping[str, Interval],
    agreements: Mapping[str, Agreement],
) -> pa.Table:
    """Makes a table with a row for each layer."""
    nothing = Interval(np.nan, np.nan, np.nan)
    columns: dict[str, Any] = {
        "layer": list(found),
        "units": [len(layer.total) for layer in found.values()],
    }
    ends = np.array(list(active.values()))
    for name, values in zip(
        ("active", "active_low", "active_high"), ends.T, strict=True
    ):
        columns[name] = pa.array(values, from_pandas=True)
    shares = [agreements[p].share if p in agreements else nothing for p in found]
    names = ("agreement", "agreement_low", "agreement_high")
    for name, values in zip(names, np.array(shares).T, strict=True):
        columns[name] = pa.array(values, from_pandas=True)
    columns["agreement_baseline"] = pa.array(
        [agreements[p].baseline if p in agreements else None for p in found],
        pa.float64(),
        from_pandas=True,
    )
    return pa.table(columns)


def tabulate_units(
    context: AnalysisContext,
    chosen: Sequence[tuple[str, int]],
    found: Mapping[str, LayerUnits],
    values: Mapping[str, ValueTokens],
    agreements: Mapping[str, Agreement],
) -> pa.Table:
    """Makes a table with a row for each chosen unit."""
    pieces = context.tokenizer.pieces
    rows = []
    for path, unit in chosen:
        layer = found[path]
        row = {
            "layer": path,
            "unit": unit,
            "strength": layer.strengths[unit],
            "mean": layer.means[unit],
            "deviation": layer.deviations[unit],
            "active": layer.active[unit] / max(layer.tokens, 1.0),
        }
        if path in values:
            tokens = values[path]
            row["favored"] = [_name_piece(pieces, x) for x in tokens.ids[unit]]
            row["probabilities"] = tokens.probabilities[unit].tolist()
            if agreements[path].counted[unit]:
                row["agrees"] = bool(agreements[path].agrees[unit])
        rows.append(row)
    columns = {"layer": pa.string(), "unit": pa.int32()}
    numbers = ("strength", "mean", "deviation", "active")
    columns |= dict.fromkeys(numbers, pa.float64())
    columns |= {
        "favored": pa.list_(pa.string()),
        "probabilities": pa.list_(pa.float32()),
        "agrees": pa.bool_(),
    }
    return pa.Table.from_pylist(rows, pa.schema(columns))


def tabulate_triggers(
    context: AnalysisContext,
    chosen: Sequence[tuple[str, int]],
    found: Mapping[str, LayerUnits],
) -> pa.Table:
    """Makes a table with a row for each chosen unit and text that activates it."""
    pieces = context.tokenizer.pieces
    tables = []
    for path, unit in chosen:
        top = found[path].top
        there = top.texts[unit] >= 0
        texts, positions = top.texts[unit][there], top.positions[unit][there]
        rows = token_rows(context, decoder=is_decoder(path))
        places = [
            Occurrence(text, position, position + 1)
            for text, position in zip(texts.tolist(), positions.tolist(), strict=True)
        ]
        tokens = [_name_piece(pieces, rows[x.text][x.start]) for x in places]
        following = [
            _name_piece(pieces, rows[x.text][x.end])
            if x.end < len(rows[x.text])
            else None
            for x in places
        ]
        number = len(places)
        tables.append(
            pa.table(
                {
                    "layer": pa.array([path] * number, pa.string()),
                    "unit": pa.array([unit] * number, pa.int32()),
                    "rank": pa.array(range(1, number + 1), pa.int32()),
                    "activation": top.activations[unit][there],
                    "text": texts,
                    "position": positions,
                    "token": pa.array(tokens, pa.string()),
                    "next": pa.array(following, pa.string()),
                    "context": pa.array(
                        show_occurrences(context.tokenizer, rows, places), pa.string()
                    ),
                }
            )
        )
    return pa.concat_tables(tables)


def _name_piece(pieces: Sequence[str], index: int) -> str:
    """Returns a piece; an id beyond the tokenizer's, of a padded table, as a number."""
    return pieces[index] if index < len(pieces) else f"#{index}"


def draw_units(
    active: Mapping[str, Interval], agreements: Mapping[str, Agreement]
) -> "Figure":
    """Draws the share of active units, and the agreement, by layer."""
    figure, axes = new_figure(2.8)
    shares = {path: agreement.share for path, agreement in agreements.items()}
    curves = {"active units": active, "agreement with the next token": shares}
    places = {path: number for number, path in enumerate(active)}
    for color, (label, curve) in zip(COLORS, curves.items(), strict=False):
        if not curve:
            continue
        at = [places[path] for path in curve]
        score, low, high = np.array(list(curve.values())).T
        axes.fill_between(at, low, high, color=color, alpha=0.2, linewidth=0)
        axes.plot(at, score, color=color, marker="o", markersize=3, label=label)
    names = [path.removesuffix("/feedforward") for path in active]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", size=7)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share of units")
    axes.legend(frameon=False, fontsize=7)
    return figure
