"""Batch helpers: model inputs, token counts, micro-batches, and training outputs."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from transbeam.model.functional.deferred_logits import without_scores
from transbeam.model.kernels.dispatch import is_plain
from transbeam.trainer.objectives.losses import Loss

Batch = Mapping[str, Any]
Numbers = dict[str, Any]


def model_inputs(model: keras.Model, batch: Batch) -> Batch:
    """Selects the features that are inputs of a model.

    Records of several texts, `(B, N, T)`, become one row per text, `(B N, T)`.
    """
    return {
        tensor.name: _rows(batch[tensor.name], len(tensor.shape))
        for tensor in model.inputs
    }


def _rows(x: Any, rank: int) -> Any:
    return x if len(x.shape) == rank else ops.reshape(x, (-1, *ops.shape(x)[2:]))


def by_record(outputs: Batch, batch: Batch) -> Batch:
    """Arranges outputs by record, `(B N, …)` to `(B, N, …)`."""
    records = ops.shape(next(iter(batch.values())))[0]
    return {
        name: ops.reshape(x, (records, -1, *x.shape[1:])) for name, x in outputs.items()
    }


def tokens_in(batch: Batch) -> Any:
    """Number of real tokens (encoder and decoder) or of images in a batch, float32."""
    rows = [ids for name, ids in batch.items() if name.endswith("document_ids")]
    if not rows:
        return ops.cast(ops.shape(next(iter(batch.values())))[0], "float32")
    return sum(ops.sum(ops.cast(ops.greater(ids, 0), "float32")) for ids in rows)


def in_parts(batch: Batch, parts: int) -> Batch:
    """Adds a first axis to each feature: (B, ...) becomes (parts, B / parts, ...)."""
    return {
        name: ops.reshape(x, (parts, -1, *x.shape[1:])) for name, x in batch.items()
    }


def outputs_to_learn_from(
    model: keras.Model, loss: Loss, whole: bool = False, training: bool = True
) -> Callable[[Batch], Mapping[str, Any]]:
    """Builds the function from a batch to the model outputs that the loss reads.

    Vocabulary logits are returned as `DeferredLogits`, which the loss computes in
    chunks, unless the loss needs all logits at once.

    Args:
        model: The model to train.
        loss: The loss to minimize.
        whole: If true, logits are always computed all at once, not in chunks.
        training: If true, dropout is active.
    """
    whole = whole or loss.reads_scores or is_plain()
    unscored = None if whole else without_scores(model)
    called = unscored or model
    return lambda batch: called(model_inputs(model, batch), training=training)
