"""The decoder: embeddings, a stack of causal blocks, and next-token logits."""

from typing import Any

import keras
from keras import ops

from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.base.initializers import derive_seed, seeded
from transbeam.model.functional.input_validation import (
    CheckedModel,
    collect_sequence_info,
    ids,
    token_inputs,
)
from transbeam.model.layers.dense import Dense
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.layers.lm_head import VocabularyProjection
from transbeam.model.stack.layer_stack import (
    LayerStack,
    build_embedding_projection,
    build_token_embedding,
)
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
from transbeam.model.task_heads import pool


def build_decoder(
    config: DecoderConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    prefix: bool = False,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds the decoder that a config describes: it predicts the next token.

    Shapes: `B` batch, `T` length, `V` vocabulary, `D` hidden width; `B`, `T` dynamic.

    Args:
        config: The `model` section of a run.
        vocabulary_size: `V`.
        packed: See `build_encoder`.
        prefix: If true, attention is bidirectional within a prefix (prefix LM).
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model. Inputs, all int32 `(B, T)`, by name: `token_ids`; then
        `padding_mask`, or `document_ids` and `position_ids` when `packed`; and
        `prefix_mask` if there is a `prefix`. Outputs: `sequence_output` `(B, T, D)` in
        the compute dtype, and the next-token `logits` at each position, float32 `(B, T,
        V)`.

    Example:
    >>> decoder = build_decoder(
    ...     DecoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> decoder.output["logits"].shape
    (None, None, 10)

    References:
        - [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
          section 2.3
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), figure 4 (prefix)
    """
    # === Layers ===
    plan = stack_specs(config, dtype=dtype, seed=seed)["decoder"]
    token_embedding = build_token_embedding(plan, vocabulary_size)
    stack = LayerStack.build(
        plan, embedding_projection=build_embedding_projection(plan)
    )

    # === Functional Model ===
    inputs = token_inputs(packed=packed)
    if prefix:
        inputs["prefix_mask"] = ids("prefix_mask")
    x = _run(stack, token_embedding, inputs["token_ids"], collect_sequence_info(inputs))
    outputs = {
        "sequence_output": x,
        "logits": score_tokens(plan, config, token_embedding, x),
    }
    return CheckedModel(inputs, outputs, name="decoder")


def build_decoder_body(
    config: DecoderConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds a decoder without its output layer, for heads and text embeddings.

    Rows may be padded on either side: positions count real tokens, so that a text has
    the same vectors wherever it stands in its row.

    Shapes: as in `build_decoder`.

    Args:
        config: The `model` section of a run.
        vocabulary_size: `V`.
        packed: See `build_encoder`.
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model with the inputs of `build_decoder` and the outputs of
        `build_encoder`; its weights have the same paths as those of `build_decoder`.

    Example:
    >>> body = build_decoder_body(
    ...     DecoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> list(body.output)
    ['sequence_output']
    """
    # === Layers ===
    plan = stack_specs(config, dtype=dtype, seed=seed)["decoder"]
    token_embedding = build_token_embedding(plan, vocabulary_size)
    stack = LayerStack.build(
        plan, embedding_projection=build_embedding_projection(plan)
    )

    # === Functional Model ===
    inputs = token_inputs(packed=packed)
    sequence_info = collect_sequence_info(inputs)
    if not packed:
        sequence_info["position_ids"] = count_positions(inputs["padding_mask"])
    x = _run(stack, token_embedding, inputs["token_ids"], sequence_info)
    outputs = {"sequence_output": x}
    if config.pooler is not None:
        outputs["pooled_output"] = pool(plan, config.pooler, x, sequence_info)
    return CheckedModel(inputs, outputs, name="decoder")


def count_positions(padding_mask: Any) -> Any:
    """Counts the position of each real token from 0: int32 `(B, T)`.

    A padding token has the position of the real token before it, or 0.

    Example:
    >>> ops.convert_to_numpy(count_positions(ops.array([[0, 0, 1, 1, 0]])))
    array([[0, 0, 0, 1, 1]], dtype=int32)
    """
    real = ops.cast(ops.not_equal(padding_mask, 0), "int32")
    return ops.maximum(ops.cumsum(real, axis=1) - 1, 0)


def _run(
    stack: LayerStack,
    token_embedding: TokenEmbedding,
    token_ids: keras.KerasTensor,
    sequence_info: dict[str, Any],
) -> keras.KerasTensor:
    x = stack.embed(token_embedding(token_ids), sequence_info.get("position_ids"))
    return stack.run(x, sequence_info)


def score_tokens(
    plan: StackSpec,
    config: DecoderConfig | Seq2SeqModelConfig,
    token_embedding: TokenEmbedding,
    x: keras.KerasTensor,
) -> keras.KerasTensor:
    """Computes vocabulary logits: float32 `(B, T, V)`.

    If a tied embedding is narrower than `x`, a dense layer projects `x` to its width.
    The dense layer's weight is not the transpose of the embedding projection: it is a
    separate weight in ALBERT's head, and in OPT-350M, a decoder with a narrow
    embedding. The dense layer is small compared to the embedding, and the transpose
    would ignore the position embeddings and the norm that lie between the embedding and
    its projection. The dense layer has no bias, as in OPT.

    An untied output matrix is as wide as `x`: wide outputs with narrow embeddings work
    better than the reverse (Chung et al.).

    References:
        - [Lan et al., 2019](https://arxiv.org/abs/1909.11942); the head is in the
          published code (`run_pretraining.py`), not in the paper
        - [Zhang et al., 2022](https://arxiv.org/abs/2205.01068); `project_out` of
          OPT-350M is in the published code, not in the paper
        - [Chung et al., 2021](https://arxiv.org/abs/2010.12821)
    """
    if config.tie_embeddings:
        if config.embedding_dim is not None:
            name = "logits_projection"
            x = Dense(
                config.embedding_dim,
                use_bias=False,
                kernel_initializer=seeded(plan.projection_initializer, plan.seed, name),
                name=name,
                dtype=plan.dtype,
            )(x)
        return ops.cast(token_embedding(x, reverse=True), "float32")
    projection = VocabularyProjection(
        token_embedding.vocabulary_size,
        kernel_initializer=plan.kernel_initializer,
        seed=derive_seed(plan.seed, "logits"),
        name="logits",
        dtype=plan.dtype,
    )
    return ops.cast(projection(x), "float32")
