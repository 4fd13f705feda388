"""Importance of attention heads and feed-forward units, from the loss's gradients."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.adaptation.structured_pruning import OUTPUT, importances
from transbeam.model.weights.assign import variables_by_path
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.step.batch import Batch, outputs_to_learn_from


def measure(
    model: keras.Model,
    loss: Loss,
    batches: Iterable[Batch],
    widths: Mapping[str, int],
    advance: Callable[[], None] = lambda: None,
) -> dict[str, np.ndarray]:
    """Computes the importance of each head and unit: a batch mean, without dropout.

    Importance uses the magnitude of a batch's gradient. Gradients of opposite sign
    cancel within a batch, so a unit that helps one record and harms another counts only
    if batches are small.

    Args:
        model: A model for the records; it is not changed.
        loss: Its training loss.
        batches: Batches of the records.
        widths: Width per head or unit of each sub-layer; see
            `transbeam.model.adaptation.structured_pruning.part_widths`.
        advance: Called after each batch.

    Returns:
        Importances of each sub-layer, float64 `(N,)`; see `importances`.

    Raises:
        ArtifactError: The gradients are not finite.
    """
    weights = variables_by_path(model)
    kernels = {part: weights[f"{part}/{OUTPUT}"].value for part in widths}
    outputs_of = outputs_to_learn_from(model, loss, training=False)

    @tf.function(autograph=False, reduce_retracing=True)
    def of_batch(batch: Batch) -> dict[str, Any]:
        counts = loss.counts(batch)
        with tf.GradientTape() as tape:
            value, _ = loss(outputs_of(batch), batch, counts)
        gradients = tape.gradient(
            value, kernels, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return {
            part: importances(kernels[part], gradients[part], width)
            for part, width in widths.items()
        }

    sums, number = dict.fromkeys(widths, np.float64(0.0)), 0
    for batch in batches:
        found = of_batch(batch)
        sums = {part: sums[part] + found[part].numpy() for part in widths}
        number += 1
        advance()
    means = {part: np.asarray(total / number) for part, total in sums.items()}
    if wrong := [part for part, mean in means.items() if not np.isfinite(mean).all()]:
        raise ArtifactError(
            f"{wrong[0]}: the loss's gradient is not finite on the records, so nothing "
            "tells what may go. Train the run again, with a smaller "
            "training.schedule.peak"
        )
    return means
