"""Geometry of the hidden states of every layer, each beside its baseline."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.inspect.vector_geometry import (
    compute_participation,
    effective_rank,
    explainable_variance,
    mean_cosine,
    normalize_rows,
    similarity_to_mean,
    singular_values,
)
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.base.free_shapes import trace_free
from transbeam.trainer.analysis.vectors.layer_states import list_layers
from transbeam.trainer.analysis.vectors.occurrences import (
    FlatTokens,
    Occurrence,
    collect_occurrences,
)
from transbeam.trainer.metrics.confidence_intervals import (
    Interval,
    intervals,
    intervals_of_draws,
)

_RANDOM, _TYPES, _TEXTS = 1000, 200, 200
# As many contexts as in Ethayarajh, 2019, at least.
_FEWEST, _MOST = 5, 20


class GeometryMeasure(NamedTuple):
    """A measure of a layer.

    Attributes:
        layer: The layer.
        measure: The measure's name.
        value: The value, with an interval; without one its ends are NaN.
        baseline: The measure of random occurrences of the same layer; NaN if none.
    """

    layer: str
    measure: str
    value: Interval
    baseline: float

    @property
    def adjusted(self) -> float:
        """The value less the baseline."""
        return self.value.score - self.baseline


class OccurrenceSample(NamedTuple):
    """Occurrences of ordinary pieces.

    Attributes:
        random: Random occurrences.
        types: The occurrences of pieces, each with at least five, by the piece's id.
    """

    random: list[Occurrence]
    types: dict[int, list[Occurrence]]


def sample_occurrences(
    tokens: FlatTokens, ordinary: np.ndarray, seed: int
) -> OccurrenceSample:
    """Draws 1000 occurrences, and up to 20 occurrences of each of 200 pieces.

    Args:
        tokens: The tokens of all texts.
        ordinary: The ids of the pieces that are drawn.
        seed: Seed of the sample.
    """
    generator = np.random.default_rng(seed)
    cells = generator.permutation(np.flatnonzero(np.isin(tokens.ids, ordinary)))
    ids, counts = np.unique(tokens.ids[cells], return_counts=True)
    frequent = generator.permutation(ids[counts >= _FEWEST])[:_TYPES]
    return OccurrenceSample(
        tokens.at(cells[:_RANDOM]),
        {
            int(index): tokens.at(cells[tokens.ids[cells] == index][:_MOST])
            for index in frequent
        },
    )


def measure_geometry(
    context: AnalysisContext, sample: OccurrenceSample
) -> list[GeometryMeasure]:
    """Measures every layer.

    - `anisotropy`: the mean cosine of random occurrences.
    - `self_similarity`: the mean cosine of a piece's occurrences; its baseline, and
      that of the next, is the anisotropy.
    - `text_similarity`: the mean cosine of a text's tokens with their mean.
    - `explainable_variance`: the share of the first singular direction of a piece's
      occurrences; its baseline is that of as many random occurrences.
    - `effective_rank`, `participation_ratio`: of the centered random occurrences.

    Args:
        context: The model and the texts.
        sample: At least two random occurrences.

    Returns:
        The measures, layer by layer. Those of pieces are missing if there are none.

    References:
        - [Ethayarajh, 2019](https://arxiv.org/abs/1909.00512), section 3
    """
    groups = list(sample.types.values())
    occurrences = [*sample.random, *(x for group in groups for x in group)]
    layers, states = collect_occurrences(context, occurrences, "geometry")
    similarities = _measure_texts(context)
    ends = np.cumsum([len(sample.random), *map(len, groups)])[:-1]
    generator = np.random.default_rng(context.seed)
    drawn = [
        generator.choice(len(sample.random), min(len(x), len(sample.random)), False)
        for x in groups
    ]
    found = []
    for layer, vectors, texts in zip(layers, states, similarities, strict=True):
        random, *types = np.split(vectors, ends)
        anisotropy = _measure_anisotropy(random, context.seed)
        base = anisotropy.score
        found.append(GeometryMeasure(layer, "anisotropy", anisotropy, np.nan))
        text = _average(texts, context.seed)
        found.append(GeometryMeasure(layer, "text_similarity", text, base))
        if types:
            same = _average([mean_cosine(x) for x in types], context.seed)
            found.append(GeometryMeasure(layer, "self_similarity", same, base))
            share = _average([explainable_variance(x) for x in types], context.seed)
            base = float(np.mean([explainable_variance(random[x]) for x in drawn]))
            found.append(GeometryMeasure(layer, "explainable_variance", share, base))
        sigma = singular_values(random, centered=True)
        for name, value in (
            ("effective_rank", effective_rank(sigma)),
            ("participation_ratio", float(compute_participation(sigma))),
        ):
            interval = Interval(value, np.nan, np.nan)
            found.append(GeometryMeasure(layer, name, interval, np.nan))
    return found


def tabulate_geometry(measures: Sequence[GeometryMeasure]) -> pa.Table:
    """Makes a table with a row for each layer and measure; null for what is NaN."""
    columns = {
        "layer": [measure.layer for measure in measures],
        "measure": [measure.measure for measure in measures],
    }
    ends = np.array([measure.value for measure in measures])
    numbers: dict[str, np.ndarray] = {}
    numbers |= dict(zip(("value", "low", "high"), ends.T, strict=True))
    numbers["baseline"] = np.array([measure.baseline for measure in measures])
    numbers["adjusted"] = np.array([measure.adjusted for measure in measures])
    nulls = {name: pa.array(x, from_pandas=True) for name, x in numbers.items()}
    return pa.table({**columns, **nulls})


def _measure_texts(context: AnalysisContext) -> np.ndarray:
    """Computes the similarity of some texts' tokens to their means: (L, texts)."""
    layers, model = list_layers(context.model), with_hidden_states(context.model)
    prefix = "encoder_" if "encoder_token_ids" in context.model.input else ""

    def compute(inputs, counted):
        outputs = model(inputs, training=False)
        return [similarity_to_mean(outputs[layer], counted) for layer in layers]

    generator = np.random.default_rng(context.seed)
    chosen = generator.permutation(len(context.texts))[:_TEXTS]
    texts = AnalyzedTexts("", tuple(context.texts.rows[number] for number in chosen))
    found, measure = [], None
    longest = context.config.model.max_sequence_length
    for batch in texts.batches(context.model, context.max_tokens, longest):
        ids = batch.inputs[f"{prefix}token_ids"]
        counted = np.isin(ids, context.tokenizer.ordinary_ids)
        counted &= batch.inputs[f"{prefix}padding_mask"] != 0
        has_two = counted.sum(axis=1) > 1  # one token is its own mean
        measure = measure or trace_free(compute, batch.inputs, counted)
        found.append(np.stack(measure(batch.inputs, counted))[:, has_two])
    return np.concatenate(found, axis=1)


def _measure_anisotropy(vectors: np.ndarray, seed: int) -> Interval:
    """Computes the mean cosine of different occurrences, with an interval over them."""
    rows = normalize_rows(vectors)

    def score(counts: np.ndarray) -> dict[str, np.ndarray]:
        # An occurrence that was drawn twice is no pair with itself.
        pairs = np.sum((counts @ rows) ** 2, axis=1) - counts**2 @ np.sum(rows**2, 1)
        number = counts.sum(axis=1) ** 2 - np.sum(counts**2, axis=1)
        return {"cosine": pairs / number}

    return intervals_of_draws(len(rows), score, seed)["cosine"]


def _average(values: Sequence[float] | np.ndarray, seed: int) -> Interval:
    if not len(values):
        return Interval(np.nan, np.nan, np.nan)
    statistics = np.stack([values, np.ones(len(values))], axis=1)
    return intervals(statistics, lambda x: {"mean": x[..., 0] / x[..., 1]}, seed)[
        "mean"
    ]
