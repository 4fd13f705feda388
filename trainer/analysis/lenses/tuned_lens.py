"""The tuned lens: a translation of each layer's hidden states, trained on texts.

The logit lens reads a hidden state as if it were the last one. The tuned lens reads
`h + h W + b` instead, with `W` and `b` of each layer such that the prediction is as
close as possible to the model's own. The model does not change.

As in the authors' program, stochastic gradient descent with Nesterov's momentum, whose
rate falls to 0, minimizes the divergence of each layer. Gradients are clipped for each
layer, so that no layer depends on others.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.model.inspect.logit_lens import LensModel, compute_divergence
from transbeam.trainer.analysis.lenses.lens_texts import LensBatch

_RATE, _MOMENTUM, _DECAY, _CLIP = 0.1, 0.9, 1e-3, 1.0


@dataclass(frozen=True)
class LensQuality:
    """Divergence of a lens from the model's predictions, by layer.

    Attributes:
        divergences: float64 `(L + 1,)`. Mean divergence from the model's prediction, in
            nats.
        agreements: float64 `(L + 1,)`. Share of predictions with the same most probable
            token.
        count: The number of predictions.
    """

    divergences: np.ndarray
    agreements: np.ndarray
    count: int


class TunedLens:
    """Translators of the hidden states of all layers but the last; at first identities.

    Args:
        lens: The model.

    Attributes:
        kernels: Variable `(L, D, D)`: `W` of each layer, the embeddings first.
        biases: Variable `(L, D)`.

    References:
        - [Belrose et al., 2023](https://arxiv.org/abs/2303.08112), section 3
        - [tuned-lens](https://github.com/AlignmentResearch/tuned-lens) (the optimizer)
    """

    def __init__(self, lens: LensModel):
        number, width = len(lens.layers) - 1, lens.width
        self.lens = lens
        self.kernels = tf.Variable(tf.zeros((number, width, width)))
        self.biases = tf.Variable(tf.zeros((number, width)))
        self._momenta = [
            tf.Variable(tf.zeros_like(x)) for x in (self.kernels, self.biases)
        ]
        # Traced once, for texts of any number and length.
        inputs = {
            name: tf.TensorSpec(tensor.shape, tensor.dtype, name)
            for name, tensor in lens.inputs.items()
        }
        cells = tf.TensorSpec((None,), tf.int32)
        layer = tf.TensorSpec((), tf.int32)
        states, logits = (tf.TensorSpec((None, n)) for n in (width, None))
        rate = tf.TensorSpec(())
        self.select = tf.function(self._select, [inputs, cells])
        self._update = tf.function(self._update_layer, [layer, states, logits, rate])
        self._describe = tf.function(self._describe_layer, [layer, states, logits])

    def translate(self, index: Any, states: Any) -> Any:
        """Translates hidden states of a layer that is not the last: `(..., D)`."""
        kernel, bias = self.kernels[index], self.biases[index]
        return states + states @ kernel + bias

    def update(self, batch: LensBatch, rate: float) -> None:
        """Takes a step of the optimizer for every layer.

        Args:
            batch: The texts.
            rate: The learning rate, from 0 to 1, as a share of the largest.
        """
        states, final = self.select(batch.inputs, batch.cells)
        for index in range(len(states) - 1):  # one at a time: (N, V) is large
            self._update(tf.constant(index), states[index], final, rate * _RATE)

    def measure(self, batches: Sequence[LensBatch]) -> LensQuality:
        """Compares the lens with the model's predictions.

        Args:
            batches: Texts that the lens was not trained on.
        """
        sums = np.zeros((2, len(self.lens.layers)))
        for batch in batches:
            states, final = self.select(batch.inputs, batch.cells)
            for index in range(len(states) - 1):
                found = self._describe(tf.constant(index), states[index], final)
                sums[:, index] += [float(x) for x in found]
        count = sum(len(batch.cells) for batch in batches)
        sums[1, -1] = count  # the last prediction is the model's
        divergences, agreements = sums / max(count, 1)
        return LensQuality(divergences, agreements, count)

    def reset(self, layers: Sequence[int]) -> None:
        """Makes the translators of some layers identities."""
        for index in layers:
            self.kernels[index].assign(tf.zeros_like(self.kernels[index]))
            self.biases[index].assign(tf.zeros_like(self.biases[index]))

    def weights(self) -> dict[str, np.ndarray]:
        """Returns `W` and `b` by layer, such as `decoder_layer_0/translator/kernel`."""
        named = (("kernel", self.kernels.numpy()), ("bias", self.biases.numpy()))
        return {
            f"{layer}/translator/{name}": values[index]
            for index, layer in enumerate(self.lens.layers[:-1])
            for name, values in named
        }

    def _select(self, inputs: Any, cells: Any) -> tuple[list[Any], Any]:
        """Computes hidden states `(N, D)` by layer, and log-probabilities `(N, V)`."""
        width = self.lens.width
        states = [
            tf.gather(tf.reshape(state, (-1, width)), cells)
            for state in self.lens.compute_states(inputs)
        ]
        return states, self._predict(states[-1])

    def _predict(self, states: Any) -> Any:
        return tf.nn.log_softmax(self.lens.unembed(states[None])[0])

    def _update_layer(self, index: Any, states: Any, final: Any, rate: Any) -> None:
        values = self.kernels[index], self.biases[index]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            kernel, bias = values
            logits = self.lens.unembed((states + states @ kernel + bias)[None])[0]
        # The divergence's gradient by the logits is the difference of probabilities.
        change = tf.nn.softmax(logits) - tf.exp(final)
        change /= tf.cast(tf.shape(states)[0], tf.float32)
        gradients = tape.gradient(logits, values, output_gradients=change)
        gradients, _ = tf.clip_by_global_norm(gradients, _CLIP)
        variables = (self.kernels, self.biases)
        for variable, momentum, value, gradient in zip(
            variables, self._momenta, values, gradients, strict=True
        ):
            gradient += _DECAY * value
            moved = _MOMENTUM * momentum[index] + gradient
            momentum[index].assign(moved)
            variable[index].assign(value - rate * (gradient + _MOMENTUM * moved))

    def _describe_layer(self, index: Any, states: Any, final: Any) -> tuple[Any, Any]:
        logs = self._predict(self.translate(index, states))
        same = tf.equal(tf.argmax(logs, -1), tf.argmax(final, -1))
        divergence = tf.reduce_sum(compute_divergence(final, logs))
        return divergence, tf.reduce_sum(tf.cast(same, tf.float32))


def train_tuned_lens(
    lens: LensModel,
    batches: Sequence[LensBatch],
    *,
    steps: int,
    seconds: float,
    seed: int,
    advance: Callable[[float], None] = lambda step: None,
) -> tuple[TunedLens, int]:
    """Trains the translators of a model.

    Args:
        lens: The model.
        batches: Texts; each pass over them is in another order.
        steps: Number of steps, each over one batch.
        seconds: Time after which the training ends before its last step; the learning
            rate falls faster if that is to be expected.
        seed: Seed of the order of the batches.
        advance: Called with the number of steps after each of them.

    Returns:
        The lens, and the number of steps that were taken.
    """
    tuned = TunedLens(lens)
    generator = np.random.default_rng(seed)
    start, order, step = time.monotonic(), [], 0
    while step < steps:
        used = max(step / steps, (time.monotonic() - start) / seconds)
        if used >= 1:
            break
        order = order or generator.permutation(len(batches)).tolist()
        tuned.update(batches[order.pop()], 1.0 - used)
        step += 1
        advance(step)
    return tuned, step
