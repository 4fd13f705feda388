"""The encoder: embeddings, a stack of blocks, and one vector per token."""

import keras

from configs.model import EncoderConfig
from model.layers.embeddings import SegmentEmbedding, TokenEmbedding
from model.layers.masks import document_attention_mask, padding_attention_mask
from model.seeds import derive_seed
from model.sockets import build_block, build_norm, build_position


def build_encoder(
    config: EncoderConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds the encoder that a config describes.

    Packed and not packed are two graphs over the same weights, in the same order
    and under the same names: train on rows filled with documents, serve one
    document a row.

    Shapes: `B` batch, `T` length, `D` hidden width; `B` and `T` are free.

    Args:
        config: The `model` section of a run.
        vocabulary_size: How many tokens there are.
        packed: Whether a row holds several documents that must not see each other.
        dtype: A Keras dtype policy such as `"mixed_bfloat16"`, or None for the
            global one.
        seed: Seed of the initial weights and of dropout; None for random ones.

    Returns:
        A functional model. Inputs, all int32 `(B, T)`, by name: `token_ids`; then
        `padding_mask` (1 for a real token) or, when `packed`, `document_ids`
        (1, 1, 2, 2, 0; 0 is padding) and `position_ids` (from 0 in every
        document); and `segment_ids` if the config has segments. Output:
        `sequence_output` `(B, T, D)` in the compute dtype. The vectors of padding
        are finite and mean nothing.

    Example:
    >>> encoder = build_encoder(
    ...     EncoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> encoder.output["sequence_output"].shape
    (None, None, 8)
    """
    # === Layers ===
    token_embedding = TokenEmbedding(
        vocabulary_size,
        config.hidden_dim,
        initializer_range=config.initializer_range,
        seed=derive_seed(seed, "token_embedding"),
        name="token_embedding",
        dtype=dtype,
    )
    position_embedding = build_position(
        config, name="position_embedding", dtype=dtype, seed=seed
    )
    embeddings_dropout = keras.layers.Dropout(
        config.dropout,
        seed=derive_seed(seed, "embeddings_dropout"),
        name="embeddings_dropout",
        dtype=dtype,
    )
    blocks = [
        build_block(config, name=f"encoder_layer_{i}", dtype=dtype, seed=seed)
        for i in range(config.num_layers)
    ]

    # === Functional Model ===
    def ids(name: str) -> keras.KerasTensor:
        return keras.Input((None,), dtype="int32", name=name)

    inputs = {"token_ids": ids("token_ids")}
    if packed:
        inputs["document_ids"] = ids("document_ids")
        inputs["position_ids"] = ids("position_ids")
        attention_mask = document_attention_mask(inputs["document_ids"])
    else:
        inputs["padding_mask"] = ids("padding_mask")
        attention_mask = padding_attention_mask(inputs["padding_mask"])

    x = token_embedding(inputs["token_ids"])
    if position_embedding is not None:
        x = position_embedding(x, inputs.get("position_ids"))
    if config.num_segments:
        inputs["segment_ids"] = ids("segment_ids")
        x = SegmentEmbedding(
            config.num_segments,
            initializer_range=config.initializer_range,
            seed=derive_seed(seed, "segment_embedding"),
            name="segment_embedding",
            dtype=dtype,
        )(x, inputs["segment_ids"])

    # A norm after the sum of the embeddings goes with `post` only, as in BERT. With
    # `pre`, the first block begins with one, and a final norm takes over what the
    # last block left undone (GPT-2; Megatron's BERT; Xiong et al., 2020, figure 1).
    post = config.norm.placement == "post"
    if post:
        x = build_norm(config, name="embeddings_norm", dtype=dtype)(x)
    x = embeddings_dropout(x)
    for block in blocks:
        x = block(x, attention_mask)
    if not post:
        x = build_norm(config, name="final_norm", dtype=dtype)(x)

    return keras.Model(inputs, {"sequence_output": x}, name="encoder")
