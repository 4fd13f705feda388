"""Texts beside reference texts: BLEU and chrF by sacrebleu, ROUGE by rouge-score.

The libraries count and score, so that numbers are those that others publish; here they
are given the shape of all metrics. Each says with a signature how it was counted. They
are in the extra `evaluation` and imported when first needed.
"""

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.metrics.counts import mean


@dataclass(frozen=True)
class BLEU:
    """[BLEU](https://aclanthology.org/P02-1040) of up to 4 words, between 0 and 100.

    Args:
        tokenize: "13a" for plain text; "none" for words with spaces between them.
        lowercase: Whether case does not matter.

    Example:
    >>> metric = BLEU()
    >>> statistics = metric.statistics(
    ...     ["A dog runs on the beach."], ["A dog runs along the beach."]
    ... )
    >>> metric.scores(statistics.sum(axis=0))["bleu"].item()
    41.11...
    >>> metric.signature
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2...'
    """

    tokenize: Literal["13a", "none"] = "13a"
    lowercase: bool = False

    @property
    def signature(self) -> str:
        """How it was counted, in sacrebleu's words."""
        return _signature(self._scorer())

    def statistics(
        self, predictions: Sequence[str], targets: Sequence[str]
    ) -> np.ndarray:
        """Counts of each pair: lengths, then right and all 1-grams to 4-grams.

        Args:
            predictions: A text each.
            targets: The reference of each.

        Returns:
            float64 (n, 10).

        Raises:
            ConfigError: sacrebleu is not there.
            ValueError: There are not as many predictions as targets.
        """
        return _statistics(self._scorer(), predictions, targets)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `bleu` of sums (..., 10)."""
        return {"bleu": _score(self._scorer(), sums)}

    def _scorer(self) -> Any:
        # Forced: it would warn that the text looks like words with spaces between.
        forced = self.tokenize == "none"
        metrics = _library("sacrebleu").metrics
        return metrics.BLEU(self.lowercase, tokenize=self.tokenize, force=forced)


@dataclass(frozen=True)
class ChrF:
    """[chrF2](https://aclanthology.org/W15-3049) of up to 6 characters, 0 to 100.

    Example:
    >>> metric = ChrF()
    >>> statistics = metric.statistics(["a black dog"], ["the black dogs"])
    >>> metric.scores(statistics.sum(axis=0))["chrf"].item()
    60.35...
    """

    @property
    def signature(self) -> str:
        """How it was counted, in sacrebleu's words."""
        return _signature(self._scorer())

    def statistics(
        self, predictions: Sequence[str], targets: Sequence[str]
    ) -> np.ndarray:
        """Counts of each pair: for each order predicted, asked for and right.

        Args:
            predictions: A text each.
            targets: The reference of each.

        Returns:
            float64 (n, 18).

        Raises:
            ConfigError: sacrebleu is not there.
            ValueError: There are not as many predictions as targets.
        """
        return _statistics(self._scorer(), predictions, targets)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `chrf` of sums (..., 18)."""
        return {"chrf": _score(self._scorer(), sums)}

    def _scorer(self) -> Any:
        return _library("sacrebleu").metrics.CHRF()


@dataclass(frozen=True)
class Rouge:
    """[ROUGE](https://aclanthology.org/W04-1013): mean F1 of texts, between 0 and 1.

    Of words, pairs of words and the longest common subsequence. Letters other than a
    to z are no part of words, so it is for English.

    Args:
        stem: Whether "runs" and "running" are the same word, by Porter's stemmer.

    Example:
    >>> metric = Rouge()
    >>> statistics = metric.statistics(["the dog runs"], ["the dogs are running"])
    >>> scores = metric.scores(statistics.sum(axis=0))
    >>> {name: round(score.item(), 4) for name, score in scores.items()}
    {'rouge1': 0.8571, 'rouge2': 0.4, 'rougeL': 0.8571}
    """

    stem: bool = True

    @property
    def signature(self) -> str:
        """How it was counted."""
        _library("rouge_score.rouge_scorer")
        version = importlib.metadata.version("rouge-score")
        return f"stem:{'yes' if self.stem else 'no'}|rouge-score:{version}"

    def statistics(
        self, predictions: Sequence[str], targets: Sequence[str]
    ) -> np.ndarray:
        """Four for each pair: F1 of ROUGE-1, ROUGE-2 and ROUGE-L, and 1.

        Args:
            predictions: A text each.
            targets: The reference of each.

        Returns:
            float64 (n, 4).

        Raises:
            ConfigError: rouge-score is not there.
            ValueError: There are not as many predictions as targets.
        """
        library = _library("rouge_score.rouge_scorer")
        scorer = library.RougeScorer(list(_ROUGE), use_stemmer=self.stem)
        rows = []
        for prediction, target in zip(predictions, targets, strict=True):
            found = scorer.score(target, prediction)
            rows.append([*(found[kind].fmeasure for kind in _ROUGE), 1])
        return np.array(rows, np.float64).reshape(-1, len(_ROUGE) + 1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `rouge1`, `rouge2` and `rougeL` of sums (..., 4)."""
        return {
            kind: mean(sums[..., place], sums[..., -1])
            for place, kind in enumerate(_ROUGE)
        }


_ROUGE = ("rouge1", "rouge2", "rougeL")


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"this metric needs {package}, which cannot be imported ({error}). Run pip "
            "install 'transbeam[evaluation]' or leave the metric out"
        ) from error


def _statistics(
    scorer: Any, predictions: Sequence[str], targets: Sequence[str]
) -> np.ndarray:
    """What sacrebleu counts of each pair, as for its own tests of significance."""
    if len(predictions) != len(targets):
        raise ValueError(f"{len(predictions)} predictions, {len(targets)} targets")
    rows = scorer._extract_corpus_statistics(predictions, [targets])
    return np.array(rows, np.float64)


def _score(scorer: Any, sums: np.ndarray) -> np.ndarray:
    """float64 (...): sacrebleu's score for each of the sums (..., k)."""
    rows = sums.reshape(-1, sums.shape[-1]).tolist()
    found = [scorer._compute_score_from_stats(row).score for row in rows]
    return np.array(found).reshape(sums.shape[:-1])


def _signature(scorer: Any) -> str:
    scorer.corpus_score(["one"], [["one"]])  # tells it the number of references
    return str(scorer.get_signature())
