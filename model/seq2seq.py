"""The encoder-decoder: generates a target text for a source text."""

import keras

from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.decoder import score_tokens
from transbeam.model.functional.input_validation import (
    CheckedModel,
    collect_sequence_info,
    token_inputs,
)
from transbeam.model.stack.layer_stack import (
    LayerStack,
    build_embedding_projection,
    build_token_embedding,
)
from transbeam.model.stack.stack_spec import stack_specs


def build_seq2seq(
    config: Seq2SeqModelConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds the encoder and the decoder that a config describes.

    The encoder and the decoder share one token embedding. In packed rows, the n-th
    document of the decoder attends to the n-th of the encoder.

    Shapes: `B` batch, `S` length of the source, `T` length of the target, `V`
    vocabulary, `D` hidden width; `B`, `S` and `T` are free.

    Args:
        config: The `model` section of a run.
        vocabulary_size: `V`.
        packed: See `build_encoder`.
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model. Inputs, all int32, by name: `encoder_token_ids` with
        `encoder_padding_mask`, or with `encoder_document_ids` and
        `encoder_position_ids` when `packed`, each `(B, S)`; and the corresponding
        inputs with the prefix `decoder_`, each `(B, T)`. Outputs:
        `encoder_sequence_output` `(B, S, D)` and `sequence_output` `(B, T, D)` in the
        compute dtype, and the next-token `logits` at each position, float32 `(B, T,
        V)`.

    Example:
    >>> model = build_seq2seq(
    ...     Seq2SeqModelConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> model.output["logits"].shape
    (None, None, 10)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), figure 1
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), section 2.1
    """
    # === Layers ===
    plan, decoder_plan = stack_specs(config, dtype=dtype, seed=seed).values()
    token_embedding = build_token_embedding(plan, vocabulary_size)
    projection = build_embedding_projection(plan)
    encoder = LayerStack.build(plan, embedding_projection=projection)
    decoder = LayerStack.build(decoder_plan, embedding_projection=projection)

    # === Functional Model ===
    inputs = {
        **token_inputs("encoder_", packed=packed),
        **token_inputs("decoder_", packed=packed),
    }
    context_info = collect_sequence_info(inputs, "encoder_")
    context = encoder.embed(
        token_embedding(inputs["encoder_token_ids"]),
        inputs.get("encoder_position_ids"),
    )
    context = encoder.run(context, context_info)
    x = decoder.embed(
        token_embedding(inputs["decoder_token_ids"]),
        inputs.get("decoder_position_ids"),
    )
    x = decoder.run(x, collect_sequence_info(inputs, "decoder_"), context, context_info)
    scored = x
    if config.scale_logits:
        # A vector, because TFLite's converter would fold a scalar into the following
        # matrix, and the file would hold that in addition to the embedding.
        width = config.table_dim if config.tie_embeddings else config.hidden_dim
        scale = keras.ops.full((config.hidden_dim,), width**-0.5, dtype=x.dtype)
        scored = x * scale
    outputs = {
        "encoder_sequence_output": context,
        "sequence_output": x,
        "logits": score_tokens(decoder_plan, config, token_embedding, scored),
    }
    return CheckedModel(inputs, outputs, name="seq2seq")
