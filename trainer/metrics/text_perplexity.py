"""Perplexity of texts per token, per word and per byte."""

import math
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean


@dataclass(frozen=True)
class TextPerplexity:
    """Perplexities of texts, from their negative log-likelihoods.

    Args:
        is_exact: True if the tokens decode to exactly the texts. Otherwise words and
            bytes of the texts are not what the model predicts, and only the perplexity
            per token is defined.
    """

    is_exact: bool = True

    def statistics(self, nats: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Four numbers per text: nats, tokens, words, bytes.

        Args:
            nats: (n,). The negative log-likelihood of each text.
            units: (n, 3). Its tokens, words (white space separates them) and bytes.

        Returns:
            float64 (n, 4).
        """
        return np.concatenate([np.reshape(nats, (-1, 1)), units], axis=1, dtype=float)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `perplexity`, `word_perplexity`, `byte_perplexity`, `bits_per_byte`.

        Example:
        >>> metric = TextPerplexity()
        >>> sums = metric.statistics(np.array([4.5]), np.array([[4, 2, 11]]))[0]
        >>> {name: round(x.item(), 4) for name, x in metric.scores(sums).items()}
        {'perplexity': 3.0802, 'word_perplexity': 9.4877, ..., 'bits_per_byte': 0.5902}
        """
        each = [mean(sums[..., 0], sums[..., number]) for number in (1, 2, 3)]
        with np.errstate(over="ignore"):  # infinite for a model that diverged
            tokens, words, utf8_bytes = map(np.exp, each)
        found = {"perplexity": tokens}
        if self.is_exact:
            found["word_perplexity"] = words
            found["byte_perplexity"] = utf8_bytes
            found["bits_per_byte"] = each[2] / math.log(2)
        return found
