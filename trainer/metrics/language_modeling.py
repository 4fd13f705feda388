"""How well a model knows a language: likelihoods, and guesses that are right."""

import math
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean, real_pairs


@dataclass(frozen=True)
class Perplexity:
    """What a token costs: in nats, and as a number of equally likely choices."""

    def statistics(self, nats: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Two for each record.

        Args:
            nats: (n,). The real targets' negative log likelihoods, added up.
            tokens: (n,). How many real targets there are.

        Returns:
            float64 (n, 2).
        """
        return np.stack([nats, tokens], axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `nats_per_token` and `perplexity` of sums (..., 2).

        Example:
        >>> metric = Perplexity()
        >>> statistics = metric.statistics([math.log(2), 5 * math.log(2)], [1, 2])
        >>> round(metric.scores(statistics.sum(axis=0))["perplexity"].item(), 6)
        4.0
        """
        nats = mean(sums[..., 0], sums[..., 1])
        with np.errstate(over="ignore"):  # a model that diverged: infinite
            return {"nats_per_token": nats, "perplexity": np.exp(nats)}


@dataclass(frozen=True)
class BitsPerByte:
    """What a byte of text costs, which is the same unit for every vocabulary.

    The nats are those of all targets of a text, end marks included, since without them
    the text is not told; so every token of it must be a target.
    """

    def statistics(self, nats: np.ndarray, utf8_bytes: np.ndarray) -> np.ndarray:
        """Two for each record.

        Args:
            nats: (n,). As for `Perplexity`.
            utf8_bytes: (n,). The length of the record's text in UTF-8.

        Returns:
            float64 (n, 2).
        """
        return np.stack([nats, utf8_bytes], axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `bits_per_byte` of sums (..., 2).

        Example:
        >>> metric = BitsPerByte()
        >>> statistics = metric.statistics([12 * math.log(2)], [len("süß".encode())])
        >>> round(metric.scores(statistics.sum(axis=0))["bits_per_byte"].item(), 6)
        2.4
        """
        return {"bits_per_byte": mean(sums[..., 0], sums[..., 1]) / math.log(2)}


@dataclass(frozen=True)
class TokenAccuracy:
    """Share of right first guesses, of masked or next tokens, from any vocabulary."""

    def statistics(
        self,
        predictions: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Two for each record: how many are right, of how many.

        Args:
            predictions: Ids (n,) or (n, P).
            targets: Ids of the same shape.
            weights: Of the same shape, 0 where nothing is asked for; None: all is real.

        Returns:
            float64 (n, 2).

        Raises:
            ValueError: The shapes differ.
        """
        pairs = real_pairs(predictions, targets, weights)
        right = pairs.unit[pairs.predicted == pairs.asked]
        each = [np.bincount(of, minlength=len(targets)) for of in (right, pairs.unit)]
        return np.stack(each, axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Makes `accuracy` of sums (..., 2).

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
