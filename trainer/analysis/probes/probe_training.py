"""Training of linear probes on frozen hidden states, of all layers at once.

A probe is a softmax regression: what it predicts well is linearly encoded in the hidden
states. Probes that do not depend on each other are trained together, as one batched
matrix product; each stops on its own.

Shapes: `L` layers, `K` sets of labels, `N` examples, `D` width, `C` classes. A set of
probes has the shape `(P, Q)`: `(L, K)` for one probe per layer and set of labels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from transbeam.trainer.analysis.base.free_shapes import trace_free

_BATCH, _ROUNDS, _PATIENCE = 256, 40, 3
# Of few examples a round is several passes over them.
_STEPS = 30
_RATE, _PENALTY = 5e-3, 1e-5
_EVALUATED = 2048  # examples at once


@dataclass(frozen=True)
class ProbeExamples:
    """Hidden states with labels.

    Attributes:
        states: float32 (L, N, D).
        labels: int32 (K, N), from 0.
    """

    states: np.ndarray
    labels: np.ndarray

    def select(self, chosen: np.ndarray) -> "ProbeExamples":
        """Returns some of the examples."""
        return ProbeExamples(self.states[:, chosen], self.labels[:, chosen])

    @property
    def without_control(self) -> "ProbeExamples":
        """The same examples with the first set of labels alone."""
        return ProbeExamples(self.states, self.labels[:1])

    def batches(self, order: np.ndarray, size: int) -> Iterator["ProbeExamples"]:
        """Yields batches of the examples in an order."""
        for first in range(0, len(order), size):
            yield self.select(order[first : first + size])


class Probes(Protocol):
    """Probes that are trained together.

    Attributes:
        kernels: Variable (P, Q, D, C), which L2 regularization applies to.
        variables: All variables, each of the shape (P, Q, ...).
    """

    kernels: tf.Variable
    variables: list[tf.Variable]

    def compute_logits(self, states: tf.Tensor) -> tf.Tensor:
        """Computes logits (P, Q, N, C) from hidden states (L, N, D)."""
        ...


class _Standardized:
    """Hidden states with mean 0 and variance 1 in each layer and dimension.

    Otherwise a layer with larger vectors would be regularized less.
    """

    def __init__(self, states: np.ndarray):
        self._mean = states.mean(axis=1, keepdims=True, dtype=np.float64)
        deviation = states.std(axis=1, keepdims=True, dtype=np.float64)
        self._scale = (1 / np.where(deviation > 0, deviation, 1)).astype(np.float32)
        self._mean = self._mean.astype(np.float32)

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        return (states - self._mean) * self._scale


class LayerProbes:
    """A probe for each layer and set of labels.

    Args:
        examples: The training examples, from which the inputs are standardized.
        classes: `C`.
    """

    def __init__(self, examples: ProbeExamples, classes: int):
        layers, _, width = examples.states.shape
        shape = (layers, len(examples.labels))
        self._standardize = _Standardized(examples.states)
        self.kernels = tf.Variable(tf.zeros((*shape, width, classes)))
        self._biases = tf.Variable(tf.zeros((*shape, classes)))
        self.variables = [self.kernels, self._biases]

    def compute_logits(self, states: tf.Tensor) -> tf.Tensor:
        """Computes logits (L, K, N, C) from hidden states (L, N, D)."""
        inputs = self._standardize(states)[:, None]
        return tf.matmul(inputs, self.kernels) + self._biases[:, :, None]


class LayerMix:
    """One probe for each set of labels, on a mixture of all layers.

    The mixture is `scale * sum(softmax(w) * states)`, with learned `w` and `scale`.
    States are standardized first, so that weights are not those of the states' norms.

    Args:
        examples: The training examples.
        classes: `C`.

    References:
        - [Peters et al., 2018](https://arxiv.org/abs/1802.05365), equation 1
        - [Tenney et al., 2019](https://arxiv.org/abs/1905.05950), section 3
    """

    def __init__(self, examples: ProbeExamples, classes: int):
        layers, _, width = examples.states.shape
        number = len(examples.labels)
        self._standardize = _Standardized(examples.states)
        self.kernels = tf.Variable(tf.zeros((1, number, width, classes)))
        self._biases = tf.Variable(tf.zeros((1, number, classes)))
        self._logits = tf.Variable(tf.zeros((1, number, layers)))
        self._scales = tf.Variable(tf.ones((1, number)))
        self.variables = [self.kernels, self._biases, self._logits, self._scales]

    def compute_logits(self, states: tf.Tensor) -> tf.Tensor:
        """Computes logits (1, K, N, C) from hidden states (L, N, D)."""
        weights = tf.nn.softmax(self._logits) * tf.expand_dims(self._scales, -1)
        mixed = tf.tensordot(weights, self._standardize(states), 1)
        return tf.matmul(mixed, self.kernels) + self._biases[:, :, None]

    @property
    def weights(self) -> np.ndarray:
        """The layers' weights, float32 (K, L); they sum to 1 over the layers."""
        return tf.nn.softmax(self._logits)[0].numpy()


def center_layers(weights: np.ndarray) -> np.ndarray:
    """Computes the center of gravity of layers' weights; the embeddings are layer 0.

    Args:
        weights: (..., L), with a sum of 1.

    Example:
    >>> float(center_layers(np.array([0.25, 0.25, 0.5])))
    1.25

    References:
        - Tenney et al., 2019, section 3
    """
    return weights @ np.arange(weights.shape[-1])


def train_probes(
    probes: Probes,
    training: ProbeExamples,
    development: ProbeExamples,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> int:
    """Trains probes with Adam and L2 regularization, until they get no better.

    A round is a pass over the examples, or 30 steps if that is more. Each probe keeps
    the weights of the round with its lowest loss on the development examples. The
    training ends when no probe has got better for three rounds.

    Args:
        probes: Untrained probes.
        training: The examples.
        development: Other examples, at least one.
        seed: Seed of the examples' order.
        advance: Called after each round.

    Returns:
        The number of rounds.
    """
    optimizer = keras.optimizers.Adam(_RATE)
    optimizer.build(probes.variables)

    def step(states, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(_losses(probes, states, labels))
            loss += _PENALTY * tf.reduce_sum(tf.square(probes.kernels))
        gradients = tape.gradient(loss, probes.variables)
        optimizer.apply(gradients, probes.variables)

    def evaluate(states, labels):
        return _losses(probes, states, labels)

    arguments = training.states, training.labels
    update, measure = (trace_free(x, *arguments) for x in (step, evaluate))
    generator = np.random.default_rng(seed)
    held = np.arange(development.labels.shape[1])
    best = [variable.numpy() for variable in probes.variables]
    lowest = np.full(best[0].shape[:2], np.inf)
    number = training.labels.shape[1]
    passes = -(-_STEPS * min(_BATCH, number) // number)
    last = done = 0
    while done < _ROUNDS and done - last < _PATIENCE:
        orders = [generator.permutation(number) for _ in range(passes)]
        order = np.concatenate(orders)
        for batch in training.batches(order, _BATCH):
            update(batch.states, batch.labels)
        losses = sum(
            measure(batch.states, batch.labels).numpy() * batch.labels.shape[1]
            for batch in development.batches(held, _EVALUATED)
        )
        done += 1
        advance()
        better = losses < lowest
        lowest = np.where(better, losses, lowest)
        if better.any():
            last = done
        for kept, variable in zip(best, probes.variables, strict=True):
            kept[better] = variable.numpy()[better]
    for variable, kept in zip(probes.variables, best, strict=True):
        variable.assign(kept)
    return done


def predict_labels(probes: Probes, examples: ProbeExamples) -> np.ndarray:
    """Predicts the labels of examples, int64 (P, Q, N)."""
    order = np.arange(examples.labels.shape[1])
    predict = trace_free(
        lambda states: tf.argmax(probes.compute_logits(states), axis=-1),
        examples.states,
    )
    parts = [predict(x.states).numpy() for x in examples.batches(order, _EVALUATED)]
    return np.concatenate(parts, axis=-1)


def _losses(probes: Probes, states: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Computes the mean cross-entropy of each probe: (P, Q)."""
    logits = probes.compute_logits(states)
    labels = tf.broadcast_to(labels, tf.shape(logits)[:-1])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses, axis=-1)
