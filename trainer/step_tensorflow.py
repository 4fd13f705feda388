"""The update as a graph of TensorFlow's."""

from typing import Any

import keras
import tensorflow as tf

from trainer.losses import Loss
from trainer.step import Batch, Numbers, Rules, in_parts, inputs_of, tokens_in


def build(rules: Rules, loss: Loss, accumulation: int):
    """See `trainer.step.build_step`."""
    model = rules.state.model
    weights = model.trainable_variables

    def gradients_of(batch: Batch, counts: list[Any]):
        with tf.GradientTape() as tape:
            outputs = model(inputs_of(model, batch), training=True)
            value, sums = loss(outputs, batch, counts)
            scaled = value * rules.state.loss_scale.value
        gradients = tape.gradient(
            scaled,
            [weight.value for weight in weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Of an embedding that is only looked up come some rows: here all of them.
        return [tf.convert_to_tensor(g) for g in gradients], value, sums

    def of_all_parts(batch: Batch, counts: list[Any]):
        parts = in_parts(batch, accumulation)

        def add(number, so_far):
            part = {name: x[number] for name, x in parts.items()}
            new = gradients_of(part, counts)
            return number + 1, tf.nest.map_structure(tf.add, so_far, new)

        nothing = ([tf.zeros_like(w.value) for w in weights], 0.0, loss.no_sums())
        loop = tf.while_loop(
            lambda number, _: number < accumulation,
            add,
            (0, nothing),
            parallel_iterations=1,
        )
        return loop[1]

    @tf.function(autograph=False)
    def update(batch: Batch) -> Numbers:
        counts = loss.counts(batch)
        work = of_all_parts if accumulation > 1 else gradients_of
        gradients, value, sums = work(batch, counts)
        gradients, norm, is_finite = rules.finish(gradients)

        def apply():
            rules.apply(gradients)
            return 0

        def skip():
            rules.skip()
            return 1

        skipped = tf.cond(is_finite & tf.math.is_finite(value), apply, skip)
        return {
            "loss": value,
            "gradient_norm": norm,
            "skipped": skipped,
            "tokens": tokens_in(batch),
            "sums": sums,
        }

    return update


def build_forward(model: keras.Model, loss: Loss):
    """See `trainer.step.build_evaluation`."""

    @tf.function(autograph=False, reduce_retracing=True)
    def forward(batch: Batch) -> Numbers:
        outputs = model(inputs_of(model, batch), training=False)
        return loss.answers(outputs, batch)

    return forward
