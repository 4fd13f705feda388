"""Models that also give what their blocks say."""

import keras

from transbeam.model.functional.input_validation import CheckedModel


def with_hidden_states(model: keras.Model) -> keras.Model:
    """The same model, on the same weights, with the output of every block.

    Distillation compares these between teacher and student; a logit lens reads them.

    Args:
        model: Any model of ours.

    Returns:
        A functional model whose outputs are the model's own and, by the names of the
        blocks, theirs: `(B, T, D)` in the compute dtype. `embeddings` is what went
        into the first one of a stack (`encoder_embeddings` and `decoder_embeddings`
        in a model of two).

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
