"""Language modeling metrics: perplexity, bits per byte, token accuracy."""

import math
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import Weights, mean, real_pairs


@dataclass(frozen=True)
class Perplexity:
    """Negative log likelihood per token in nats, and perplexity."""

    def statistics(self, nats: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Two numbers per record: nats and tokens.

        Args:
            nats: (n,). Summed negative log likelihoods of each record's real targets.
            tokens: (n,). Number of real targets.

        Returns:
            float64 (n, 2).
        """
        return np.stack([nats, tokens], axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `nats_per_token` and `perplexity` from sums (..., 2).

        Example:
        >>> metric = Perplexity()
        >>> statistics = metric.statistics([math.log(2), 5 * math.log(2)], [1, 2])
        >>> round(metric.scores(statistics.sum(axis=0))["perplexity"].item(), 6)
        4.0
        """
        nats = mean(sums[..., 0], sums[..., 1])
        with np.errstate(over="ignore"):  # infinite for a model that diverged
            return {"nats_per_token": nats, "perplexity": np.exp(nats)}


@dataclass(frozen=True)
class BitsPerByte:
    """Negative log likelihood per byte of text, comparable between vocabularies.

    All tokens of a text and its end token must be targets, since only together do they
    encode the text.
    """

    def statistics(self, nats: np.ndarray, utf8_bytes: np.ndarray) -> np.ndarray:
        """Two numbers per record: nats and bytes.

        Args:
            nats: (n,). As in `Perplexity`.
            utf8_bytes: (n,). The length of the record's text in UTF-8.

        Returns:
            float64 (n, 2).
        """
        return np.stack([nats, utf8_bytes], axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `bits_per_byte` from sums (..., 2).

        Example:
        >>> metric = BitsPerByte()
        >>> statistics = metric.statistics([12 * math.log(2)], [len("süß".encode())])
        >>> round(metric.scores(statistics.sum(axis=0))["bits_per_byte"].item(), 6)
        2.4
        """
        return {"bits_per_byte": mean(sums[..., 0], sums[..., 1]) / math.log(2)}


@dataclass(frozen=True)
class TokenAccuracy:
    """Top-1 accuracy of masked or next tokens, for any vocabulary."""

    def statistics(
        self, predictions: np.ndarray, targets: np.ndarray, weights: Weights = None
    ) -> np.ndarray:
        """Two numbers per record: correct predictions and targets.

        Args:
            predictions: Ids (n,) or (n, P).
            targets: Ids of the same shape.
            weights: Weights of the same shape, 0 for padding; None if all targets are
                real.

        Returns:
            float64 (n, 2).

        Raises:
            ValueError: The shapes differ.
        """
        pairs = real_pairs(predictions, targets, weights)
        right = pairs.unit[pairs.predicted == pairs.actual]
        each = [np.bincount(of, minlength=len(targets)) for of in (right, pairs.unit)]
        return np.stack(each, axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `accuracy` from sums (..., 2).

        Example:
        >>> metric = TokenAccuracy()
        >>> statistics = metric.statistics(
        ...     [[8, 9], [5, 0]], [[8, 7], [5, 0]], [[1, 1], [1, 0]]
        ... )
        >>> statistics
        array([[1., 2.],
               [1., 1.]])
        >>> round(metric.scores(statistics.sum(axis=0))["accuracy"].item(), 4)
        0.6667
        """
        return {"accuracy": mean(sums[..., 0], sums[..., 1])}
