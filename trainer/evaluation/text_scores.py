"""Scores of generated texts against references, by their configuration names."""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.schema.evaluation import TextScore
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.generated_text import BLEU, ChrF, Rouge
from transbeam.trainer.metrics.language_modeling import TokenAccuracy

TextMetric = BLEU | ChrF | Rouge


def signatures(names: Sequence[TextScore]) -> dict[str, str]:
    """The signature of each score's settings, in the library's own notation.

    Raises:
        ConfigError: The library of a score is missing.

    Example:
    >>> signatures(["bleu", "exact_match"])
    {'bleu': 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2...'}
    """
    metrics = {name: _metric(name) for name in names}
    return {name: of.signature for name, of in metrics.items() if of is not None}


def text_scores(
    answers: Sequence[str],
    references: Sequence[str],
    names: Sequence[TextScore],
    seed: int,
) -> dict[str, Interval]:
    """Computes scores, each with a 95% confidence interval over the texts.

    Args:
        answers: The generated texts.
        references: The reference of each.
        names: Names of the scores; `rouge` gives three.
        seed: Seed of the bootstrap.

    Example:
    >>> found = text_scores(["a dog", "cats"], ["a dog", "cat"], ["exact_match"], 1)
    >>> found["exact_match"].score
    0.5
    """
    found: dict[str, Interval] = {}
    for name in names:
        metric = _metric(name)
        if metric is None:
            right = np.array([a == r for a, r in zip(answers, references, strict=True)])
            metric = TokenAccuracy()
            statistics = metric.statistics(right, np.ones(len(right), bool))
        else:
            statistics = metric.statistics(answers, references)
        scores = intervals(statistics, metric.scores, seed)
        if len(scores) == 1:
            (interval,) = scores.values()
            found[name] = interval
        else:
            found |= scores
    return found


def _metric(name: TextScore) -> TextMetric | None:
    """The metric of a name; None for `exact_match`."""
    match name:
        case "bleu":
            return BLEU()
        case "bleu_lowercase":
            return BLEU(lowercase=True)
        case "chrf":
            return ChrF()
        case "rouge":
            return Rouge()
        case "exact_match":
            return None
