"""Models with the hidden states of all blocks as outputs."""

import keras

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
