"""Metrics of generated texts: BLEU, chrF, ROUGE, and F1 of words.

sacrebleu and rouge-score compute the statistics and scores, so that results are
comparable with published ones; this module wraps the libraries in the common metric
interface. The signature of each metric documents its settings. The libraries are in the
extra `evaluation` and imported when first needed.
"""

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Literal

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.metrics.counts import mean
from transbeam.trainer.metrics.squad import token_f1

# The reference of a text, or several.
References = str | Sequence[str]


def as_references(target: References) -> Sequence[str]:
    """Returns the references of a text as a sequence."""
    return [target] if isinstance(target, str) else target


class TextMetric(ABC):
    """Base class: compares generated texts with references."""

    def statistics(
        self, predictions: Sequence[str], targets: Sequence[References]
    ) -> np.ndarray:
        """Computes the statistics of each text and its references.

        Args:
            predictions: The generated texts.
            targets: The reference of each generated text, or several.

        Returns:
            float64 (n, k).

        Raises:
            ConfigError: The library is not installed.
            ValueError: There are not as many predictions as targets.
        """
        if len(predictions) != len(targets):
            raise ValueError(f"{len(predictions)} predictions, {len(targets)} targets")
        references = [as_references(target) for target in targets]
        return np.array(self._rows(predictions, references), np.float64)

    @abstractmethod
    def _rows(
        self, predictions: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> Any:
        """Returns a row of additive statistics for each text and its references."""


class SacrebleuMetric(TextMetric):
    """Base class of the metrics that sacrebleu computes.

    Attributes:
        name: The name of the score.
    """

    name: ClassVar[str]

    @property
    def signature(self) -> str:
        """The settings and version, in sacrebleu's notation."""
        scorer = self._scorer()
        scorer.corpus_score(["one"], [["one"]])  # sets the number of references
        return str(scorer.get_signature())

    def _rows(
        self, predictions: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> Any:
        # A list for each place among the references, None where a text has fewer.
        by_place = [list(place) for place in zip_longest(*targets)]
        return self._scorer()._extract_corpus_statistics(predictions, by_place)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the score from each of the sums (..., k)."""
        scorer, rows = self._scorer(), sums.reshape(-1, sums.shape[-1]).tolist()
        found = [scorer._compute_score_from_stats(row).score for row in rows]
        return {self.name: np.array(found).reshape(sums.shape[:-1])}

    def _scorer(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class BLEU(SacrebleuMetric):
    """[BLEU](https://aclanthology.org/P02-1040) with up to 4-grams, from 0 to 100.

    The statistics are the lengths, then the numbers of correct and of all 1-grams to
    4-grams: k = 10.

    Args:
        tokenize: "13a" for plain text; "none" for text that is tokenized with spaces.
        lowercase: If true, case is ignored.

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

    name: ClassVar[str] = "bleu"

    tokenize: Literal["13a", "none"] = "13a"
    lowercase: bool = False

    def _scorer(self) -> Any:
        # Forced, because it would warn that the text looks tokenized.
        forced = self.tokenize == "none"
        metrics = _library("sacrebleu").metrics
        return metrics.BLEU(self.lowercase, tokenize=self.tokenize, force=forced)


@dataclass(frozen=True)
class ChrF(SacrebleuMetric):
    """[chrF2](https://aclanthology.org/W15-3049) with up to 6-grams, from 0 to 100.

    The statistics are predicted, reference and matching n-grams of each order: k = 18.

    Example:
    >>> metric = ChrF()
    >>> statistics = metric.statistics(["a black dog"], ["the black dogs"])
    >>> metric.scores(statistics.sum(axis=0))["chrf"].item()
    60.35...
    """

    name: ClassVar[str] = "chrf"

    def _scorer(self) -> Any:
        return _library("sacrebleu").metrics.CHRF()


@dataclass(frozen=True)
class Rouge(TextMetric):
    """[ROUGE](https://aclanthology.org/W04-1013): mean F1 of texts, between 0 and 1.

    ROUGE-1, ROUGE-2 and ROUGE-L, over words, word pairs and the longest common
    subsequence, and ROUGE-Lsum, which looks for each sentence of the reference among
    all sentences of the text; a line is a sentence, and of a single line it equals
    ROUGE-L. Of several references, the best F1 of each counts. The statistics of a text
    are its four F1 values and the number 1: k = 5. Words consist only of the letters a
    to z and digits, so the metric is suitable only for English.

    Args:
        stem: If true, Porter's stemmer makes "runs" and "running" the same word.

    Example:
    >>> metric = Rouge()
    >>> statistics = metric.statistics(["the dog runs"], ["the dogs are running"])
    >>> scores = metric.scores(statistics.sum(axis=0))
    >>> {name: round(score.item(), 4) for name, score in scores.items()}
    {'rouge1': 0.8571, 'rouge2': 0.4, 'rougeL': 0.8571, 'rougeLsum': 0.8571}
    """

    stem: bool = True

    @property
    def signature(self) -> str:
        """The stemming setting and the library's version."""
        _library("rouge_score.rouge_scorer")
        version = importlib.metadata.version("rouge-score")
        return f"stem:{'yes' if self.stem else 'no'}|rouge-score:{version}"

    def _rows(
        self, predictions: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> Any:
        library = _library("rouge_score.rouge_scorer")
        scorer = library.RougeScorer(list(_ROUGE), use_stemmer=self.stem)
        rows = []
        for prediction, references in zip(predictions, targets, strict=True):
            found = scorer.score_multi(references, prediction)
            rows.append([*(found[kind].fmeasure for kind in _ROUGE), 1])
        return np.reshape(rows, (-1, len(_ROUGE) + 1))

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the four scores, named as in rouge-score, from sums (..., 5)."""
        return {
            kind: mean(sums[..., column], sums[..., -1])
            for column, kind in enumerate(_ROUGE)
        }


@dataclass(frozen=True)
class WordF1(TextMetric):
    """F1 of the words that texts share, as SQuAD scores answers, between 0 and 1.

    Case, ASCII punctuation and English articles do not count; of several references,
    the best one counts. The statistics of a text are its F1 and the number 1: k = 2.

    Example:
    >>> metric = WordF1()
    >>> statistics = metric.statistics(["the Denver Broncos"], ["Broncos of the NFL"])
    >>> metric.scores(statistics.sum(axis=0))["f1"].item()
    0.4
    """

    @property
    def signature(self) -> str:
        """The normalization, in the notation of the other metrics."""
        return "norm:squad-2.0"

    def _rows(
        self, predictions: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> Any:
        pairs = zip(predictions, targets, strict=True)
        rows = [(max(token_f1(text, one) for one in of), 1) for text, of in pairs]
        return np.reshape(rows, (-1, 2))

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `f1` from sums (..., 2)."""
        return {"f1": mean(sums[..., 0], sums[..., 1])}


_ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"this metric needs {package}, which cannot be imported ({error}). Run pip "
            "install 'transbeam[evaluation]' or leave the metric out"
        ) from error
