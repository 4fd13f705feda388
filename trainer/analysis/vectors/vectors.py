"""The part `vectors` of an analysis: geometry of the vectors of pieces and words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.vector_geometry import principal_components
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.base.piece_labels import label_pieces
from transbeam.trainer.analysis.vectors.layer_geometry import (
    GeometryMeasure,
    measure_geometry,
    sample_occurrences,
    tabulate_geometry,
)
from transbeam.trainer.analysis.vectors.layer_states import list_layers
from transbeam.trainer.analysis.vectors.occurrences import (
    flatten_texts,
)
from transbeam.trainer.analysis.vectors.piece_vectors import (
    check_words,
    find_frequent,
    find_piece,
    read_piece_vectors,
    tabulate_analogies,
    tabulate_neighbors,
)
from transbeam.trainer.analysis.vectors.vector_figures import (
    draw_contexts,
    draw_geometry,
    draw_pieces,
    draw_words,
)
from transbeam.trainer.analysis.vectors.word_contexts import (
    find_contexts,
    tabulate_contexts,
    tabulate_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME, _TITLE = "vectors", "Vectors"
_PICTURED, _NEIGHBORED = 100, 20


def analyze_vectors(
    context: AnalysisContext, *, words: Sequence[str] = ()
) -> AnalysisPart:
    """Describes the vectors of pieces, and of words in their contexts, in every layer.

    Args:
        context: The model and the texts.
        words: Words whose occurrences are followed from layer to layer, and whose
            neighbors are listed; by default some frequent pieces.

    Returns:
        The part; without numbers for a model of images, or texts of one token.

    Raises:
        ConfigError: A word is empty.
    """
    check_words(words)
    try:
        layers = list_layers(context.model)
    except ConfigError as error:
        return _explain(str(error))
    tokens = flatten_texts(context)
    sample = sample_occurrences(tokens, context.tokenizer.ordinary_ids, context.seed)
    if len(sample.random) < 2:
        return _explain("The texts have fewer than two ordinary tokens.")
    measures = measure_geometry(context, sample)
    found, notes = find_contexts(context, words, sample)
    tables, figures, numbers = _describe_pieces(context, words, notes)
    tables["geometry"] = tabulate_geometry(measures)
    figures["geometry"] = draw_geometry(measures)
    if found:
        baselines = [x.value.score for x in measures if x.measure == "anisotropy"]
        tables["words"] = tabulate_words(layers, found, baselines)
        tables["contexts"] = tabulate_contexts(context, layers, found)
        similarities = {x.word: x.similarities - baselines for x in found}
        figures["words"] = draw_words(similarities)
        pictures = [principal_components(states, 2) for states in found[0].states]
        figures["contexts"] = draw_contexts(found[0].word, layers, pictures)
    notes.append(
        f"Geometry: of {len(sample.random):,} random occurrences of pieces and "
        f"{len(sample.types):,} pieces with 5 to 20 occurrences each. The effective "
        "rank is of singular values, not their squares"
    )
    return AnalysisPart(
        name=_NAME,
        title=_TITLE,
        summary=_summarize(measures),
        numbers={"geometry": _describe(measures), **numbers},
        tables=tables,
        figures=figures,
        notes=tuple(notes),
    )


def _explain(note: str) -> AnalysisPart:
    return AnalysisPart(
        name=_NAME, title=_TITLE, summary="Does not apply.", notes=(note,)
    )


def _describe_pieces(
    context: AnalysisContext, words: Sequence[str], notes: list[str]
) -> "tuple[dict[str, pa.Table], dict[str, Figure], dict[str, Any]]":
    """Describes the embedding table; adds notes on what is left out."""
    tokenizer = context.tokenizer
    frequent = find_frequent(context, _PICTURED)
    asked = {word: find_piece(tokenizer, word) for word in words}
    notes += [
        f"{word!r}: no neighbors, as it is no piece of the vocabulary"
        for word, index in asked.items()
        if index is None
    ]
    ids = [index for index in asked.values() if index is not None]
    ids = list(dict.fromkeys(ids)) or frequent[:_NEIGHBORED]
    try:
        pieces = read_piece_vectors(context)
    except ConfigError as error:
        notes.append(f"Neighbors and analogies: left out. {error}")
        return {}, {}, {}
    analogies, missing = tabulate_analogies(pieces, tokenizer)
    if missing:
        notes.append(
            f"Analogies: {missing} are left out, as a word of theirs is no piece"
        )
    tables = {
        "neighbors": tabulate_neighbors(pieces, tokenizer, ids),
        "analogies": analogies,
    }
    solved = sum(rank == 1 for rank in analogies["rank"].to_pylist())
    numbers = {"analogies": len(analogies), "analogies_solved": solved}
    if len(frequent) < 2:
        return tables, {}, numbers
    picture = principal_components(pieces.vectors[pieces.find_rows(frequent)], 2)
    labels = label_pieces(tokenizer, frequent)
    return tables, {"pieces": draw_pieces(labels, picture)}, numbers


def _describe(measures: Sequence[GeometryMeasure]) -> dict[str, dict[str, Any]]:
    """Returns the values by measure and layer, as JSON values."""
    found: dict[str, dict[str, Any]] = {}
    for measure in measures:
        score = measure.value.score
        value = None if np.isnan(score) else score
        found.setdefault(measure.measure, {})[measure.layer] = value
    return found


def _summarize(measures: Sequence[GeometryMeasure]) -> str:
    first, last = measures[0].layer, measures[-1].layer
    value = {(x.measure, x.layer): x for x in measures}
    text = (
        f"Random occurrences have a mean cosine of "
        f"{value['anisotropy', first].value.score:.2f} in {first} and "
        f"{value['anisotropy', last].value.score:.2f} in {last}"
    )
    if ("self_similarity", last) in value:
        text += (
            "; occurrences of one piece, less that, "
            f"{value['self_similarity', first].adjusted:.2f} and "
            f"{value['self_similarity', last].adjusted:.2f}"
        )
    return f"{text}."
