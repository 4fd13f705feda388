"""A stack of identically configured blocks, with embeddings and final norm."""

from dataclasses import dataclass
from typing import Any

import keras

from transbeam.model.base.initializers import derive_seed, seeded
from transbeam.model.layers.block import TransformerBlock
from transbeam.model.layers.dense import Dense
from transbeam.model.layers.dropout import Dropout
from transbeam.model.layers.embeddings import SegmentEmbedding, TokenEmbedding
from transbeam.model.stack.layer_factory import (
    build_attention,
    build_bias_table,
    build_cross_attention,
    build_feedforward,
    build_norm,
    build_position,
    build_residual,
)
from transbeam.model.stack.stack_spec import StackSpec


@dataclass(frozen=True, kw_only=True)
class LayerStack:
    """The layers of a stack, and the order in which they are called.

    A model's graph is built by calling these layers with Keras inputs; generation calls
    the same layers again, with a cache.
    """

    position_embedding: keras.layers.Layer | None
    segment_embedding: keras.layers.Layer | None
    embeddings_norm: keras.layers.Layer | None
    embedding_projection: keras.layers.Layer | None
    embeddings_dropout: keras.layers.Layer
    relative_bias: keras.layers.Layer | None
    blocks: tuple[TransformerBlock, ...]
    final_norm: keras.layers.Layer | None

    @classmethod
    def build(
        cls,
        plan: StackSpec,
        *,
        num_segments: int = 0,
        embedding_projection: keras.layers.Layer | None = None,
    ) -> "LayerStack":
        """Builds the layers of a stack from its spec.

        Args:
            plan: See `StackSpec`.
            num_segments: Number of segments.
            embedding_projection: The layer of `build_embedding_projection`.
        """
        config, prefix = plan.config, plan.prefix
        segments = None
        if num_segments:
            segments = SegmentEmbedding(
                num_segments,
                embeddings_initializer=plan.embeddings_initializer,
                seed=derive_seed(plan.seed, "segment_embedding"),
                name="segment_embedding",
                dtype=plan.dtype,
            )
        # With `pre`, the first block starts with a norm, and a final norm follows the
        # last block (GPT-2; Xiong et al., 2020, figure 1).
        post = config.norm.placement == "post"
        return cls(
            position_embedding=build_position(plan, f"{prefix}position_embedding"),
            segment_embedding=segments,
            embeddings_norm=build_norm(plan, f"{prefix}embeddings_norm")
            if config.has_embeddings_norm
            else None,
            embedding_projection=embedding_projection,
            embeddings_dropout=Dropout(
                config.dropout,
                seed=derive_seed(plan.seed, f"{prefix}embeddings_dropout"),
                name=f"{prefix}embeddings_dropout",
                dtype=plan.dtype,
            ),
            relative_bias=build_bias_table(plan, f"{prefix}relative_bias"),
            blocks=tuple(
                build_block(plan.at(name), name, index)
                for index, name in enumerate(_block_names(plan))
            ),
            final_norm=None if post else build_norm(plan, f"{prefix}final_norm"),
        )

    @classmethod
    def from_model(cls, model: keras.Model, prefix: str = "") -> "LayerStack":
        """Finds the layers of a stack in a built model.

        Args:
            model: A model of `build_encoder`, `build_decoder` or `build_seq2seq`, or
                one with a head.
            prefix: `"encoder_"` or `"decoder_"` in an encoder-decoder.
        """
        layers = {layer.name: layer for layer in model.layers}
        kind = prefix or ("decoder_" if "decoder_layer_0" in layers else "encoder_")
        names = (f"{kind}layer_{index}" for index in range(len(layers)))
        return cls(
            blocks=tuple(layers[name] for name in names if name in layers),
            segment_embedding=layers.get("segment_embedding"),
            embedding_projection=layers.get("embedding_projection"),
            **{
                name: layers.get(f"{prefix}{name}")
                for name in (
                    "position_embedding",
                    "embeddings_norm",
                    "embeddings_dropout",
                    "relative_bias",
                    "final_norm",
                )
            },
        )

    def embed(self, x: Any, position_ids: Any = None, segment_ids: Any = None) -> Any:
        """Adds position and segment embeddings to token embeddings; projects the sum.

        Positions and segments are added in the width `E` of the token embedding, and
        the norm has that width too, as in ALBERT's published code: all embeddings are
        narrow, and the sum is projected. Dropout is applied last, as without narrow
        embeddings; ALBERT applies it before the projection.

        Args:
            x: `(B, T, E)`, where `E` is `D` unless the token embedding is narrow.
            position_ids: int `(B, T)`, or None for 0, 1, 2, ...
            segment_ids: int `(B, T)`, or None for the first segment.

        Returns:
            `(B, T, D)`.

        References:
            - [Lan et al., 2019](https://arxiv.org/abs/1909.11942), section 3.1
        """
        if self.position_embedding is not None:
            x = self.position_embedding(x, position_ids)
        if self.segment_embedding is not None:
            x = self.segment_embedding(x, segment_ids)
        if self.embeddings_norm is not None:
            x = self.embeddings_norm(x)
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)
        return self.embeddings_dropout(x)

    def with_bias_table(self, sequence_info: dict[str, Any], x: Any) -> dict[str, Any]:
        """Adds the stack's position bias table, if it has one, to the sequence info."""
        if self.relative_bias is None:
            return sequence_info
        return {**sequence_info, "bias_table": self.relative_bias(x)}

    def run(
        self,
        x: Any,
        sequence_info: dict[str, Any],
        context: Any = None,
        context_info: dict[str, Any] | None = None,
    ) -> Any:
        """Runs embedded tokens `(B, T, D)` through all blocks and the final norm."""
        sequence_info = self.with_bias_table(sequence_info, x)
        for block in self.blocks:
            if context is None:
                x = block(x, sequence_info)
            else:
                x = block(x, sequence_info, context=context, context_info=context_info)
        return self.normalise(x)

    @property
    def output(self) -> keras.KerasTensor:
        """Returns the stack's output in the graph of its model: `(B, T, D)`."""
        return (self.final_norm or self.blocks[-1]).output

    def normalise(self, x: Any) -> Any:
        """Applies the norm after the last block, if there is one."""
        return x if self.final_norm is None else self.final_norm(x)


def build_token_embedding(plan: StackSpec, vocabulary_size: int) -> TokenEmbedding:
    """Builds the token embedding, which all stacks of a model share."""
    return TokenEmbedding(
        vocabulary_size,
        plan.config.table_dim,
        vocabulary_multiple=plan.config.vocabulary_multiple,
        scale=plan.config.embedding_scale,
        embeddings_initializer=plan.embeddings_initializer,
        seed=derive_seed(plan.seed, "token_embedding"),
        name="token_embedding",
        dtype=plan.dtype,
    )


def build_embedding_projection(plan: StackSpec) -> Dense | None:
    """Builds the projection of narrow embeddings, which all stacks of a model share.

    The token embedding and this projection factorize an embedding of full width; all
    stacks of a model share both factors, as they would share the embedding of full
    width. The projection has a bias, as in ALBERT and ELECTRA.

    Returns:
        A layer from `(B, T, E)` to `(B, T, D)`; None without `embedding_dim`.

    References:
        - [Lan et al., 2019](https://arxiv.org/abs/1909.11942), section 3.1
        - [Clark et al., 2020](https://arxiv.org/abs/2003.10555); the bias is in the
          published code of both, not in the papers
    """
    if plan.config.embedding_dim is None:
        return None
    name = "embedding_projection"
    return Dense(
        plan.config.hidden_dim,
        kernel_initializer=seeded(plan.projection_initializer, plan.seed, name),
        name=name,
        dtype=plan.dtype,
    )


def build_block(plan: StackSpec, name: str, index: int) -> TransformerBlock:
    """Builds a block from its config.

    Args:
        plan: The stack's spec, with the block's seed.
        name: The block's name.
        index: The block's index.
    """
    parts: dict[str, keras.layers.Layer] = {
        "self_attention": build_attention(plan, "self_attention"),
    }
    if (feedforward := build_feedforward(plan, "feedforward")) is not None:
        parts["feedforward"] = feedforward
    if plan.cross:
        parts["cross_attention"] = build_cross_attention(plan, "cross_attention")
    for part in list(parts):
        parts[f"{part}_norm"] = build_norm(plan, f"{part}_norm")
        parts[f"{part}_residual"] = build_residual(plan, f"{part}_residual", index)
    return TransformerBlock(
        **parts,
        norm_placement=plan.config.norm.placement,
        name=name,
        dtype=plan.dtype,
    )


def _block_names(plan: StackSpec) -> list[str]:
    kind = plan.prefix or ("decoder_" if plan.causal else "encoder_")
    return [f"{kind}layer_{index}" for index in range(plan.num_layers)]
