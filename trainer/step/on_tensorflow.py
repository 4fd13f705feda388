"""The update as a TensorFlow graph."""

from typing import Any

import keras
import tensorflow as tf

from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.step.batch import (
    Batch,
    Numbers,
    by_record,
    in_parts,
    model_inputs,
    outputs_to_learn_from,
    tokens_in,
)
from transbeam.trainer.step.state import UpdateRule


def build(rules: UpdateRule, loss: Loss, accumulation: int, workers: Workers):
    """See `transbeam.trainer.step.build.build_step`."""
    model = rules.state.model
    weights = model.trainable_variables
    outputs_of = outputs_to_learn_from(model, loss)
    workers.sums_for(rules.state.optimizer)

    def gradients_of(batch: Batch, counts: list[Any]):
        batch = loss.prepare(batch)
        with tf.GradientTape() as tape:
            value, sums = loss(outputs_of(batch), batch, counts)
            scaled = value * rules.state.loss_scale.value
        gradients = tape.gradient(
            scaled,
            [weight.value for weight in weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # The gradient of an embedding lookup is sparse (IndexedSlices): make it dense.
        return [tf.convert_to_tensor(g) for g in gradients], value, sums

    def of_all_parts(batch: Batch, counts: list[Any]):
        parts = in_parts(batch, accumulation)

        def add(number, so_far):
            new = gradients_of({name: x[number] for name, x in parts.items()}, counts)
            return number + 1, tf.nest.map_structure(tf.add, so_far, new)

        nothing = ([tf.zeros_like(w.value) for w in weights], 0.0, loss.no_sums())
        loop = tf.while_loop(
            lambda number, _: number < accumulation,
            add,
            (0, nothing),
            parallel_iterations=1,
        )
        return loop[1]

    def share(rows: Batch) -> tuple[list[Any], Numbers]:
        """Computes a batch's gradients, loss and metric sums; runs on each replica."""
        rows = workers.rows_of_replica(rows)
        counts = workers.add_up(loss.counts(rows))
        work = of_all_parts if accumulation > 1 else gradients_of
        with workers.own_randomness(model):
            found = work(rows, counts)
        (gradients, value, sums), tokens = workers.add_up((found, tokens_in(rows)))
        gradients, norms, is_finite = rules.finish(gradients)
        return gradients, {
            "loss": value,
            **norms,
            "is_finite": is_finite & tf.math.is_finite(value),
            "tokens": tokens,
            "sums": sums,
        }

    @tf.function(autograph=False)
    def update(batch: Batch) -> Numbers:
        gradients, numbers = workers.run(share, batch)
        numbers = workers.first(numbers)

        def apply():
            workers.run(rules.apply, gradients)
            return 0

        def skip():
            workers.run(rules.skip)
            return 1

        skipped = tf.cond(numbers.pop("is_finite"), apply, skip)
        return {**numbers, "skipped": skipped}

    return update


def build_forward(model: keras.Model, loss: Loss, workers: Workers):
    """See `transbeam.trainer.step.build.build_evaluation`."""

    def outputs(rows: Batch) -> Batch:
        return model(model_inputs(model, rows), training=False)

    def answers(rows: Batch) -> Numbers:
        return loss.answers(outputs(rows), rows)

    @tf.function(autograph=False, reduce_retracing=True)
    def forward(batch: Batch) -> Numbers:
        if not loss.compares_records:
            return workers.over_rows(answers, batch)
        vectors = workers.over_rows(lambda rows: by_record(outputs(rows), rows), batch)
        return loss.answers(vectors, batch)

    return forward
