"""A batch on its way through a model: what is read, in parts, and how much it is."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from transbeam.model.functional.deferred_logits import without_scores
from transbeam.model.kernels.dispatch import is_plain
from transbeam.trainer.objectives.losses import Loss

Batch = Mapping[str, Any]
Numbers = dict[str, Any]


def inputs_of(model: keras.Model, batch: Batch) -> Batch:
    """The features that the model reads."""
    return {tensor.name: batch[tensor.name] for tensor in model.inputs}


def tokens_in(batch: Batch) -> Any:
    """Real tokens of a batch, of both sides of a pair; of images, how many: float32."""
    rows = [ids for name, ids in batch.items() if name.endswith("document_ids")]
    if not rows:
        return ops.cast(ops.shape(next(iter(batch.values())))[0], "float32")
    return sum(ops.sum(ops.cast(ops.greater(ids, 0), "float32")) for ids in rows)


def in_parts(batch: Batch, parts: int) -> Batch:
    """Each feature with a new first axis: (B, ...) becomes (parts, B / parts, ...)."""
    return {
        name: ops.reshape(x, (parts, -1, *x.shape[1:])) for name, x in batch.items()
    }


def outputs_to_learn_from(
    model: keras.Model, loss: Loss, whole: bool = False, training: bool = True
) -> Callable[[Batch], Mapping[str, Any]]:
    """From a batch to what the loss reads of a model that gradients are taken of.

    Scores of a vocabulary are left to the loss, unless it reads them.

    Args:
        model: Is trained.
        loss: What it makes small.
        whole: Whether scores are to be made in one piece in any case.
        training: Whether dropout is in force.
    """
    whole = whole or loss.reads_scores or is_plain()
    unscored = None if whole else without_scores(model)
    called = unscored or model
    return lambda batch: called(inputs_of(model, batch), training=training)
