"""A model that returns hidden states, so that the loss computes logits in chunks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from transbeam.model.functional.input_validation import CheckedModel
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.layers.lm_head import VocabularyBias, VocabularyProjection

SCORES = "logits"


@dataclass(frozen=True)
class DeferredLogits:
    """Vocabulary logits, `vectors @ table.T + bias`, in unevaluated form.

    Attributes:
        vectors: `(B, T, D)`, in the compute dtype.
        table: float32 `(V, D)`.
        bias: float32 `(V,)`, or None.
    """

    vectors: Any
    table: Any
    bias: Any


class DeferredLogitsModel:
    """A model with shared weights, whose `logits` are `DeferredLogits`.

    Vocabulary logits are by far the largest output of a language model, and a loss
    needs them for only a few tokens at a time.
    """

    def __init__(self, model: keras.Model, vectors: Any, table: keras.layers.Layer):
        self._table = table
        biases = [x for x in model.layers if isinstance(x, VocabularyBias)]
        self._bias = biases[0] if biases else None
        outputs = {**model.output, SCORES: vectors}
        self._model = CheckedModel(model.input, outputs, name=model.name)

    def __call__(self, inputs: Mapping[str, Any], training: bool) -> dict[str, Any]:
        outputs = self._model(inputs, training=training)
        bias = None
        if self._bias is not None:
            bias = ops.convert_to_tensor(self._bias.bias)
        scores = DeferredLogits(outputs[SCORES], self._rows(), bias)
        return {**outputs, SCORES: scores}

    def _rows(self) -> Any:
        """The output matrix, with a row for each token."""
        layer = self._table
        if isinstance(layer, VocabularyProjection):
            return ops.transpose(ops.convert_to_tensor(layer.kernel))
        table = ops.convert_to_tensor(layer.embeddings)
        if layer.num_rows > layer.vocabulary_size:
            table = table[: layer.vocabulary_size]
        return table


def without_scores(model: keras.Model) -> DeferredLogitsModel | None:
    """Wraps a model to skip its last product, if that product yields vocabulary logits.

    Args:
        model: A model of `transbeam.model`, with float weights.

    Returns:
        The wrapped model, with shared weights; None if its `logits` are not over a
        vocabulary.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> import numpy as np
    >>> decoder = build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ids = np.array([[1, 2, 3]], "int32")
    >>> inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    >>> scores = without_scores(decoder)(inputs, training=False)["logits"]
    >>> tuple(scores.vectors.shape), tuple(scores.table.shape), scores.bias
    ((1, 3, 8), (10, 8), None)
    """
    for layer in model.layers:
        if isinstance(layer, VocabularyProjection):
            return DeferredLogitsModel(model, layer.input, layer)
        if isinstance(layer, TokenEmbedding):
            for node in layer._inbound_nodes:  # no public API for these
                if node.arguments.kwargs.get("reverse"):
                    return DeferredLogitsModel(model, node.input_tensors[0], layer)
    return None
