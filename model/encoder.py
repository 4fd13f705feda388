"""The encoder: embeddings, a stack of blocks, and one output vector per token."""

import keras
from keras import ops

from transbeam.configs.schema.attention import has_global_segment
from transbeam.configs.schema.model import EncoderConfig, PatchesConfig
from transbeam.model.base.initializers import derive_seed
from transbeam.model.functional.input_validation import (
    CheckedModel,
    collect_sequence_info,
    ids,
    token_inputs,
)
from transbeam.model.layers.patches import ClassToken, PatchEmbedding
from transbeam.model.stack.layer_stack import (
    LayerStack,
    build_embedding_projection,
    build_token_embedding,
)
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
from transbeam.model.task_heads import pool


def build_encoder(
    config: EncoderConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    segments: bool = True,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds the encoder that a config describes.

    With and without packing, the weights are the same, in the same order and with the
    same names: train on rows with several documents, serve one document per row.

    Shapes: `B` batch, `T` length, `D` hidden width; `B` and `T` are dynamic.

    Args:
        config: The `model` section of a run.
        vocabulary_size: Number of tokens; not used with `config.patches`.
        packed: If true, a row holds several documents, with no attention between them.
        segments: If false, the model has no segment-id input even if the config has
            segments, and all tokens belong to the first segment.
        dtype: A Keras dtype policy such as `"mixed_bfloat16"`, or None for the
            global one.
        seed: Seed of the initial weights and of dropout; None for a random seed.

    Returns:
        A functional model. Inputs, all int32 `(B, T)`, by name: `token_ids`; then
        `padding_mask` (1 for a real token) or, when `packed`, `document_ids`
        (1, 1, 2, 2, 0; 0 is padding) and `position_ids` (from 0 in every
        document); and `segment_ids` if the config reads segments: for an embedding of
        each, or to tell the global tokens of its attention. With
        `config.patches` the only input is `image`, uint8 `(B, S, S, C)`. Outputs:
        `sequence_output` `(B, T, D)` in the compute dtype, with finite but meaningless
        vectors at padding; and `pooled_output` `(B, D)` if the config has a pooler,
        which pools over all real tokens of a row.

    Example:
    >>> encoder = build_encoder(
    ...     EncoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> encoder.output["sequence_output"].shape
    (None, None, 8)
    """
    # === Layers ===
    plan = stack_specs(config, dtype=dtype, seed=seed)["encoder"]
    stack = LayerStack.build(
        plan,
        num_segments=config.num_segments,
        embedding_projection=build_embedding_projection(plan),
    )

    # === Functional Model ===
    if config.patches is not None:
        inputs = {"image": _image(config.patches)}
        x = _embed_image(plan, config.patches, inputs["image"])
        sequence_info = {"padding_mask": ops.ones_like(x[:, :, 0], dtype="int32")}
        x = stack.embed(x)
    else:
        inputs = token_inputs(packed=packed)
        if segments and config.reads_segments:
            inputs["segment_ids"] = ids("segment_ids")
        sequence_info = collect_sequence_info(inputs)
        segment_ids = inputs.get("segment_ids")
        if has_global_segment(config.attention) and segment_ids is not None:
            is_first = ops.equal(segment_ids, 0)
            sequence_info["global_mask"] = ops.cast(is_first, "int32")
        x = build_token_embedding(plan, vocabulary_size)(inputs["token_ids"])
        embedded = segment_ids if config.num_segments > 1 else None
        x = stack.embed(x, inputs.get("position_ids"), embedded)
    x = stack.run(x, sequence_info)

    outputs = {"sequence_output": x}
    if config.pooler is not None:
        outputs["pooled_output"] = pool(plan, config.pooler, x, sequence_info)
    return CheckedModel(inputs, outputs, name="encoder")


def _image(patches: PatchesConfig) -> keras.KerasTensor:
    size = (patches.image_size, patches.image_size, patches.num_channels)
    return keras.Input(size, dtype="uint8", name="image")


def _embed_image(
    plan: StackSpec, patches: PatchesConfig, image: keras.KerasTensor
) -> keras.KerasTensor:
    """Embeds the patches of an image, with a class token prepended."""
    hidden_dim, dtype = plan.config.hidden_dim, plan.dtype
    x = PatchEmbedding(
        patches.patch_size,
        hidden_dim,
        kernel_initializer=plan.kernel_initializer,
        seed=derive_seed(plan.seed, "patch_embedding"),
        name="patch_embedding",
        dtype=dtype,
    )(image)
    return ClassToken(
        embeddings_initializer=plan.embeddings_initializer,
        seed=derive_seed(plan.seed, "class_token"),
        name="class_token",
        dtype=dtype,
    )(x)
