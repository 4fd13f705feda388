"""One storey of a Transformer."""

from typing import Literal

import keras

from configs.errors import ConfigError

PARTS = (
    "self_attention",
    "self_attention_norm",
    "self_attention_residual",
    "feedforward",
    "feedforward_norm",
    "feedforward_residual",
)


@keras.saving.register_keras_serializable(package="transbeam")
class TransformerBlock(keras.layers.Layer):
    """Attention between the tokens, then a feed-forward on each of them.

    The block knows the order of things and nothing about the things: attention,
    norm, feed-forward and residual are layers given to it. They are the sockets
    in which one variant is exchanged for another.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        self_attention: layer called with `(B, T, D)` and the attention mask.
        self_attention_norm: layer called with `(B, T, D)`.
        self_attention_residual: layer called with a sub-layer's input and output.
        feedforward: layer called with `(B, T, D)`.
        feedforward_norm: as `self_attention_norm`.
        feedforward_residual: as `self_attention_residual`.
        norm_placement: `"post"` norms the sum, as BERT does; `"pre"` norms what
            goes into the sub-layer and leaves the sum alone, which trains deep
            models without warm-up but asks for one more norm after the last block.

    Call arguments:
        inputs: float `(B, T, D)`.
        attention_mask: bool `(B, 1, T)` or `(B, T, T)`, query by key, true where
            the query may attend.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ConfigError: when `norm_placement` is neither of the two.

    Example:
    >>> from model.layers.attention import MultiHeadAttention
    >>> from model.layers.feedforward import FeedForward
    >>> from model.layers.norms import LayerNormalization
    >>> from model.layers.residual import Residual
    >>> block = TransformerBlock(
    ...     self_attention=MultiHeadAttention(hidden_dim=4, num_heads=2),
    ...     self_attention_norm=LayerNormalization(),
    ...     self_attention_residual=Residual(),
    ...     feedforward=FeedForward(hidden_dim=4, intermediate_dim=8),
    ...     feedforward_norm=LayerNormalization(),
    ...     feedforward_residual=Residual(),
    ... )
    >>> everyone = keras.ops.ones((1, 1, 3), dtype="bool")
    >>> tuple(block(keras.ops.ones((1, 3, 4)), everyone).shape)
    (1, 3, 4)

    Masking: only `attention_mask` counts. A Keras mask on the inputs is not read,
    and Keras warns of it.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), figure 1 (post)
        - [Xiong et al., 2020](https://arxiv.org/abs/2002.04745), figure 1 (pre)
    """

    def __init__(
        self,
        self_attention: keras.layers.Layer,
        self_attention_norm: keras.layers.Layer,
        self_attention_residual: keras.layers.Layer,
        feedforward: keras.layers.Layer,
        feedforward_norm: keras.layers.Layer,
        feedforward_residual: keras.layers.Layer,
        norm_placement: Literal["pre", "post"] = "post",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if norm_placement not in ("pre", "post"):
            raise ConfigError(
                f"{self.name}: norm_placement={norm_placement!r} is not one of "
                "'pre', 'post'"
            )
        self.self_attention = self_attention
        self.self_attention_norm = self_attention_norm
        self.self_attention_residual = self_attention_residual
        self.feedforward = feedforward
        self.feedforward_norm = feedforward_norm
        self.feedforward_residual = feedforward_residual
        self.norm_placement = norm_placement

    def build(self, inputs_shape, attention_mask_shape):
        self.self_attention.build(inputs_shape, attention_mask_shape)
        self.self_attention_norm.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape, inputs_shape)
        self.feedforward.build(inputs_shape)
        self.feedforward_norm.build(inputs_shape)
        self.feedforward_residual.build(inputs_shape, inputs_shape)

    def call(self, inputs, attention_mask, training=None):
        x = inputs
        if self.norm_placement == "pre":
            update = self.self_attention_norm(x)
            update = self.self_attention(update, attention_mask, training=training)
            x = self.self_attention_residual(x, update, training=training)

            update = self.feedforward_norm(x)
            update = self.feedforward(update)
            return self.feedforward_residual(x, update, training=training)

        update = self.self_attention(x, attention_mask, training=training)
        x = self.self_attention_residual(x, update, training=training)
        x = self.self_attention_norm(x)

        update = self.feedforward(x)
        x = self.feedforward_residual(x, update, training=training)
        return self.feedforward_norm(x)

    def compute_output_shape(self, inputs_shape, attention_mask_shape):
        return inputs_shape

    def get_config(self):
        config = {**super().get_config(), "norm_placement": self.norm_placement}
        for name in PARTS:
            config[name] = keras.saving.serialize_keras_object(getattr(self, name))
            # Its shapes would let Keras build the part before the block, and the
            # part's weights would lose the block's name from their paths.
            config[name].pop("build_config", None)
        return config

    @classmethod
    def from_config(cls, config):
        parts = {
            name: keras.saving.deserialize_keras_object(config[name]) for name in PARTS
        }
        return super().from_config({**config, **parts})
