"""Hidden states of all blocks as outputs of a model, and as vectors of words."""

from typing import Any

import keras
from keras import ops

from transbeam.model.functional.input_validation import CheckedModel


def with_hidden_states(model: keras.Model) -> keras.Model:
    """Adds the output of every block to a model's outputs; the weights are shared.

    Distillation compares the hidden states of teacher and student; a logit lens applies
    the output layer to them.

    Args:
        model: A model of `transbeam.model`.

    Returns:
        A functional model with the outputs of the model and, by the names of the
        blocks, their hidden states: `(B, T, D)` in the compute dtype. `embeddings` is
        the input of a stack's first block (`encoder_embeddings` and
        `decoder_embeddings` in an encoder-decoder).

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=2, hidden_dim=8), 10)
    >>> sorted(with_hidden_states(encoder).output)
    ['embeddings', 'encoder_layer_0', 'encoder_layer_1', 'sequence_output']
    """
    outputs = dict(model.output)
    for layer in model.layers:
        if layer.name.endswith("embeddings_dropout"):
            outputs[layer.name.removesuffix("_dropout")] = layer.output
        elif "_layer_" in layer.name:
            outputs[layer.name] = layer.output
    return CheckedModel(model.input, outputs, name=f"{model.name}_with_hidden_states")


def average_words(states: Any, membership: Any) -> Any:
    """Averages the vectors of each word's tokens.

    Args:
        states: float `(B, T, D)`.
        membership: `(B, T, W)`, 1 where a token is a part of a word; see
            `transbeam.model.inspect.word_attention.word_membership`.

    Returns:
        float32 `(B, W, D)`; zeros for a word without tokens.

    Example:
    >>> import numpy as np
    >>> states = np.array([[[1.0, 0.0], [2.0, 4.0], [4.0, 0.0]]])
    >>> membership = np.array([[[1, 0], [0, 1], [0, 1]]])
    >>> ops.convert_to_numpy(average_words(states, membership))[0]
    array([[1., 0.],
           [3., 2.]], dtype=float32)
    """
    member = ops.cast(membership, "float32")
    tokens = ops.maximum(ops.sum(member, axis=1), 1.0)  # (B, W)
    mean = ops.swapaxes(member / ops.expand_dims(tokens, 1), 1, 2)
    return ops.matmul(mean, ops.cast(states, "float32"))
