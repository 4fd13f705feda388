"""How good a model is on the validation split, beside what needs no model at all."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Evaluation:
    """Masked language modelling on the whole validation split.

    Attributes:
        loss: Nats per asked-for token.
        perplexity: exp(loss).
        accuracy: Share of first guesses that are right.
        unigram_entropy: Nats per asked-for token of the best guess that looks at no
            context: the entropy of the targets' own frequencies.
        nats_below_unigram: How much the context is worth to the model.
        predictions: How many tokens were asked for.
    """

    loss: float
    perplexity: float
    accuracy: float
    unigram_entropy: float
    nats_below_unigram: float
    predictions: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(model: keras.Model, batches: tf.data.Dataset) -> Evaluation:
    """Evaluates a compiled model on every batch of a finite dataset."""
    logs = model.evaluate(batches, return_dict=True, verbose=0)
    counts = target_counts(batches)
    entropy = unigram_entropy(counts)
    return Evaluation(
        loss=logs["loss"],
        perplexity=math.exp(logs["loss"]),
        accuracy=logs["accuracy"],
        unigram_entropy=entropy,
        nats_below_unigram=entropy - logs["loss"],
        predictions=int(counts.sum()),
    )


def target_counts(batches: tf.data.Dataset) -> np.ndarray:
    """int64 (V',): how often each id is asked for."""
    counts = np.zeros(1, np.int64)
    for _, targets, weights in batches.as_numpy_iterator():
        asked = targets["logits"][weights["logits"] > 0]
        batch = np.bincount(asked, minlength=len(counts))
        batch[: len(counts)] += counts
        counts = batch
    return counts


def unigram_entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that counts describe.

    Example:
    >>> round(unigram_entropy(np.array([1, 1, 0, 2])), 4)  # 1.5 bits
    1.0397
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
