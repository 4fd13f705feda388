"""The part `circuits` of an analysis: heads' matrices, and a logit's contributions."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.circuits import (
    HeadWeights,
    compute_composition_baseline,
    compute_composition_scores,
    compute_copying_scores,
    compute_singular_values,
    read_head_weights,
    read_vocabulary_circuit,
)
from transbeam.model.inspect.vector_geometry import compute_participation
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.heat_maps import draw_heat_map
from transbeam.trainer.analysis.circuits.attribution import attribute_prediction
from transbeam.trainer.analysis.circuits.circuit_figures import draw_composition
from transbeam.trainer.analysis.lenses.lens import check_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights = Mapping[str, HeadWeights]


def analyze_circuits(
    context: AnalysisContext, *, text: int = 0, position: int | None = None
) -> AnalysisPart:
    """Reads the circuits of all heads, and attributes one prediction to the parts.

    Args:
        context: The model and the texts.
        text: The number of the text whose prediction is attributed.
        position: The position in the text after which the token is predicted; None for
            the last one before special tokens at the end.

    Returns:
        The part; what does not apply to the model is left out, with a note.

    Raises:
        ConfigError: There is no such text.
    """
    check_text(context.texts, text)
    sentences, notes = [], []
    numbers, tables, figures = {}, {}, {}
    try:
        weights = _read_stacks(context)
    except ConfigError as error:
        weights = {}
        notes.append(f"No circuits: {error}.")
    if weights:
        copying = {}
        try:
            circuit = read_vocabulary_circuit(context.model)
            # The heads that write to the residual stream that the logits are read from.
            copying = {
                path: compute_copying_scores(heads, circuit)
                for path, heads in list(weights.values())[-1].items()
            }
        except ConfigError as error:
            notes.append(f"No copying scores: {error}.")
        every = {path: x for stack in weights.values() for path, x in stack.items()}
        tables["heads"], tables["spectra"] = _tabulate_heads(every, copying)
        numbers["heads"] = tables["heads"].to_pylist()
        if copying:
            figures["copying"] = _draw_copying(copying)
            number = sum(int((x > 0.5).sum()) for x in copying.values())
            total = sum(len(x) for x in copying.values())
            sentences.append(
                f"{number} of {total} heads have a copying score above 0.5."
            )
        composed = {
            prefix: _compose(stack)
            for prefix, stack in weights.items()
            if len(stack) > 1
        }
        if composed:
            tables["composition"] = pa.concat_tables(composed.values())
            sentences.append(_describe_composition(tables["composition"]))
        for prefix, table in composed.items():
            figures[f"{prefix}composition"] = _draw_composition(table, weights[prefix])
    try:
        found = attribute_prediction(context, text, position)
    except ConfigError as error:
        notes.append(f"No attribution: {error}.")
    else:
        tables["attribution"], figures["attribution"] = found.tabulate(), found.draw()
        if found.paths is not None:
            tables["paths"] = found.paths.tabulate()
            figures["paths"] = found.draw_paths()
        sentences.append(found.summarize(text))
        notes.extend(found.notes)
        numbers["attribution"] = {
            "text": text,
            "position": found.position,
            "predicted": found.predicted,
            "against": found.against,
            "difference": found.difference,
            "parts": tables["attribution"].to_pylist(),
        }
    return AnalysisPart(
        name="circuits",
        title="Circuits",
        summary=" ".join(sentences) or "Does not apply.",
        numbers=numbers,
        tables=tables,
        figures=figures,
        notes=tuple(notes),
    )


def _read_stacks(context: AnalysisContext) -> dict[str, Weights]:
    """Reads the heads of each stack, by its prefix; the decoder's last."""
    names = {layer.name for layer in context.model.layers}
    is_pair = {"encoder_layer_0", "decoder_layer_0"} <= names
    prefixes = ("encoder_", "decoder_") if is_pair else ("",)
    return {prefix: read_head_weights(context.model, prefix) for prefix in prefixes}


def _tabulate_heads(
    weights: Weights, copying: Mapping[str, np.ndarray]
) -> tuple[pa.Table, pa.Table]:
    """Returns a row for each head, and one for each singular value."""
    heads, spectra = [], []
    for path, layer in weights.items():
        values = {
            kind: compute_singular_values(*factors)
            for kind, factors in (("qk", layer.qk), ("ov", layer.ov))
        }
        number = len(layer.query)
        columns = {
            "layer": [path] * number,
            "head": np.arange(number, dtype="int32"),
            "copying_score": pa.array(copying.get(path, [None] * number), pa.float64()),
        }
        for kind, sigma in values.items():
            columns[f"{kind}_norm"] = np.linalg.norm(sigma, axis=1)
            columns[f"{kind}_rank"] = compute_participation(sigma)
            size = sigma.shape[1]
            spectra.append(
                pa.table(
                    {
                        "layer": [path] * sigma.size,
                        "head": columns["head"].repeat(size),
                        "circuit": [kind] * sigma.size,
                        "index": np.tile(np.arange(size, dtype="int32"), number),
                        "singular_value": sigma.ravel(),
                    }
                )
            )
        heads.append(pa.table(columns))
    return pa.concat_tables(heads), pa.concat_tables(spectra)


def _compose(weights: Weights) -> pa.Table:
    """Returns a row for each kind and each pair of an earlier and a later head."""
    tables = []
    for (first, earlier), (second, later) in combinations(weights.items(), 2):
        baseline = compute_composition_baseline(earlier.query.shape[1])
        scores = compute_composition_scores(earlier, later)
        for kind, score in scores.items():
            rows, columns = np.indices(score.shape, "int32")
            tables.append(
                pa.table(
                    {
                        "earlier_layer": [first] * score.size,
                        "earlier_head": rows.ravel(),
                        "later_layer": [second] * score.size,
                        "later_head": columns.ravel(),
                        "kind": [kind] * score.size,
                        "score": score.ravel(),
                        "above_baseline": score.ravel() - baseline,
                    }
                )
            )
    return pa.concat_tables(tables)


def _describe_composition(table: pa.Table) -> str:
    best = table.slice(int(np.argmax(table["above_baseline"])), 1).to_pylist()[0]
    return (
        f"The strongest composition is by {best['kind'].upper()}: head "
        f"{best['later_head']} of {best['later_layer']} reads head "
        f"{best['earlier_head']} of {best['earlier_layer']}, {best['score']:.2f} "
        f"against {best['score'] - best['above_baseline']:.2f} of unrelated heads."
    )


def _draw_composition(table: pa.Table, weights: Weights) -> "Figure":
    sizes = [len(layer.query) for layer in weights.values()]
    starts = dict(zip(weights, np.cumsum([0, *sizes[:-1]]), strict=True))

    def find(side: str) -> np.ndarray:  # indices of heads over all layers
        layers = np.array([starts[path] for path in table[f"{side}_layer"].to_pylist()])
        return layers + table[f"{side}_head"].to_numpy()

    rows, columns = find("earlier"), find("later")
    kinds, values = np.array(table["kind"]), table["above_baseline"].to_numpy()
    scores = {}
    for kind in ("q", "k", "v"):
        scores[kind] = np.full((sum(sizes), sum(sizes)), np.nan)
        chosen = kinds == kind
        scores[kind][rows[chosen], columns[chosen]] = values[chosen]
    return draw_composition(scores, [str(index) for index in range(len(sizes))], sizes)


def _draw_copying(copying: Mapping[str, np.ndarray]) -> "Figure":
    most = max(map(len, copying.values()))
    values = np.full((len(copying), most), np.nan)
    for row, scores in zip(values, copying.values(), strict=True):
        row[: len(scores)] = scores
    return draw_heat_map(
        values,
        _label_layers(copying),
        [str(head) for head in range(most)],
        across="head",
        meaning="copying score",
    )


def _label_layers(paths: Mapping[str, object]) -> Sequence[str]:
    return [path.removesuffix("/self_attention") for path in paths]
