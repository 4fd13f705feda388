"""Means of heads' statistics over texts, with bootstrap confidence intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.model.inspect.attention_statistics import OFFSETS
from transbeam.model.inspect.head_detectors import DETECTORS
from transbeam.trainer.analysis.heads.token_classes import TOKEN_CLASSES
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

# Statistics whose count is the number of queries.
_OF_QUERIES = ("entropy", "confidence", "confidence_without_end", "sparsity")
_OF_QUERIES += ("distance", "distant", "first")
_NAMED_OFFSETS = {"self": 0, "previous": -1, "next": 1}

# Values of one layer by metric: float (texts, heads), NaN for texts without a value. A
# weight at an offset has the offset as its name.
LayerValues = Mapping[str | int, np.ndarray]


class TextSums:
    """Statistics of every text, collected batch by batch.

    Memory is proportional to the number of texts and heads: no maps are kept.

    Args:
        texts: Number of texts.
    """

    def __init__(self, texts: int):
        self._texts = texts
        self.layers: dict[str, dict[str, np.ndarray]] = {}

    def add(
        self, index: np.ndarray, statistics: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Adds the statistics of some texts.

        Args:
            index: The texts' numbers, (B,).
            statistics: Of each layer by name: (B, ...).
        """
        for layer, found in statistics.items():
            sums = self.layers.setdefault(layer, {})
            for name, value in found.items():
                value = np.asarray(value)
                if name not in sums:
                    shape = (self._texts, *value.shape[1:])
                    sums[name] = np.zeros(shape, np.float32)
                sums[name][index] = value


def means_by_text(sums: Mapping[str, np.ndarray]) -> LayerValues:
    """Divides the sums of each text by their counts.

    Args:
        sums: The statistics of one layer, of `attention_statistics` or `detect_heads`.
    """
    if "weights" in sums:
        columns = [_divide(sums["weights"], sums["queries"][:, None])]
        return dict(zip(DETECTORS, np.moveaxis(columns[0], -1, 0), strict=True))
    queries = sums["queries"][:, None]
    values: dict[str | int, np.ndarray] = {
        name: _divide(sums[name], queries) for name in _OF_QUERIES if name in sums
    }
    values["entropy_share"] = _divide(
        sums["entropy_share"], sums["queries_with_two_keys"][:, None]
    )
    if "offsets" in sums:
        for column, offset in enumerate(OFFSETS):
            values[offset] = _divide(sums["offsets"][..., column], queries)
        values |= {name: values[at] for name, at in _NAMED_OFFSETS.items()}
    if "classes" in sums and sums["classes"].shape[-1]:
        for column, name in enumerate(TOKEN_CLASSES):
            values[name] = _divide(sums["classes"][..., column], queries)
    if "end_to_end" in sums:
        values["end_to_end"] = _divide(sums["end_to_end"], sums["end_queries"][:, None])
    return values


def _divide(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    sums, counts = np.broadcast_arrays(sums, counts)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


@dataclass(frozen=True)
class HeadMean:
    """The mean of one statistic of one head over texts.

    Attributes:
        layer: The path of the attention layer.
        head: The head's number in it.
        metric: Name of the statistic, or the offset in tokens.
        interval: The mean and its confidence interval.
        texts: Number of texts with a value.
    """

    layer: str
    head: int
    metric: str | int
    interval: Interval
    texts: int

    @property
    def mean(self) -> float:
        return self.interval.score


def average_heads(layer: str, values: LayerValues, seed: int) -> list[HeadMean]:
    """Averages the texts' values of each head, each text with the same weight.

    Resamples of the texts are the same for all heads and statistics.

    Args:
        layer: The layer's path.
        values: Its values.
        seed: Seed of the resamples.

    Returns:
        The means of statistics that some text has.

    References:
        - [Efron, 1979](https://doi.org/10.1214/aos/1176344552) (the bootstrap)
    """
    names = [(name, head) for name, x in values.items() for head in range(x.shape[1])]
    columns = np.concatenate([*values.values()], axis=1)  # (texts, names)
    has_value = np.isfinite(columns)
    number = len(names)

    def scores(sums: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid="ignore"):
            means = sums[..., :number] / sums[..., number:]
        return {str(column): means[..., column] for column in range(number)}

    statistics = np.hstack([np.where(has_value, columns, 0), has_value])
    found = intervals(statistics, scores, seed)
    return [
        HeadMean(layer, head, name, found[str(column)], int(has_value[:, column].sum()))
        for column, (name, head) in enumerate(names)
        if has_value[:, column].any()
    ]


def find_layers(means: Iterable[HeadMean]) -> list[str]:
    """Returns the layers' paths, in the order of the model."""
    return list(dict.fromkeys(mean.layer for mean in means))


def arrange_by_head(
    means: Sequence[HeadMean], metric: str | int
) -> dict[str, np.ndarray]:
    """Arranges the means of one statistic: (heads,) by layer, in the model's order."""
    found: dict[str, list[float]] = {}
    for mean in means:
        if mean.metric == metric:
            found.setdefault(mean.layer, []).append(mean.mean)
    return {layer: np.array(values) for layer, values in found.items()}
