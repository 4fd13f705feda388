"""A Transformer block."""

from typing import Literal

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.activation_hooks import activation
from transbeam.model.kernels.rematerialize import rematerialize
from transbeam.model.layers.base_layer import SameShapeLayer
from transbeam.model.layers.dropout import Seeds

SUBLAYERS = ("self_attention", "cross_attention", "feedforward")
PARTS = tuple(
    name + ending for name in SUBLAYERS for ending in ("", "_norm", "_residual")
)


@keras.saving.register_keras_serializable(package="transbeam")
class TransformerBlock(SameShapeLayer):
    """A Transformer block: self-attention, optional cross-attention, feed-forward.

    The block only defines the order of its sub-layers: attention, norm, feed-forward
    and residual are layers passed to it, so each can be replaced by another kind.

    Shapes: `B` batch, `T` length, `S` length of the context, `D` hidden width.

    Args:
        self_attention: layer called with `(B, T, D)` and the sequence info.
        self_attention_norm: layer called with `(B, T, D)`.
        self_attention_residual: layer called with a sub-layer's input and output.
        feedforward: layer called with `(B, T, D)`; None in an attention-only block.
        feedforward_norm: Like `self_attention_norm`, or None.
        feedforward_residual: Like `self_attention_residual`, or None.
        cross_attention: layer called with `(B, T, D)`, the context and the sequence
            info of both; None without a context.
        cross_attention_norm: Like `self_attention_norm`, or None.
        cross_attention_residual: Like `self_attention_residual`, or None.
        norm_placement: `"post"` normalizes the sum, as in BERT; `"pre"` normalizes the
            input of the sub-layer and not the sum, which allows training deep models
            without warm-up but needs a further norm after the last block.

    Attributes:
        rematerialize: If true, training stores only a block's inputs and recomputes its
            intermediate results for the gradient: less memory, one more forward pass.

    Call arguments:
        inputs: float `(B, T, D)`.
        sequence_info: dict of int `(B, T)` tensors: masks and positions of the tokens;
            see `transbeam.model.layers.sequence_info`.
        context: float `(B, S, D)`, an encoder's output; None without one.
        context_info: Like `sequence_info`, for the context.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ConfigError: `norm_placement` is neither `"post"` nor `"pre"`.

    Example:
    >>> from transbeam.model.layers.attention.full import MultiHeadAttention
    >>> from transbeam.model.layers.feedforward import FeedForward
    >>> from transbeam.model.layers.norms import LayerNormalization
    >>> from transbeam.model.layers.residual import Residual
    >>> block = TransformerBlock(
    ...     self_attention=MultiHeadAttention(hidden_dim=4, num_heads=2),
    ...     self_attention_norm=LayerNormalization(),
    ...     self_attention_residual=Residual(),
    ...     feedforward=FeedForward(hidden_dim=4, intermediate_dim=8),
    ...     feedforward_norm=LayerNormalization(),
    ...     feedforward_residual=Residual(),
    ... )
    >>> sequence_info = {"padding_mask": keras.ops.ones((1, 3), dtype="int32")}
    >>> tuple(block(keras.ops.ones((1, 3, 4)), sequence_info).shape)
    (1, 3, 4)

    Masking: only `sequence_info` is used. A Keras mask on the inputs is ignored, with a
    warning of Keras.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), figure 1 (post)
        - [Xiong et al., 2020](https://arxiv.org/abs/2002.04745), figure 1 (pre)
        - [Chen et al., 2016](https://arxiv.org/abs/1604.06174) (rematerialize)
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html)
          (attention-only)
    """

    def __init__(
        self,
        *,
        self_attention: keras.layers.Layer,
        self_attention_norm: keras.layers.Layer,
        self_attention_residual: keras.layers.Layer,
        feedforward: keras.layers.Layer | None = None,
        feedforward_norm: keras.layers.Layer | None = None,
        feedforward_residual: keras.layers.Layer | None = None,
        cross_attention: keras.layers.Layer | None = None,
        cross_attention_norm: keras.layers.Layer | None = None,
        cross_attention_residual: keras.layers.Layer | None = None,
        norm_placement: Literal["pre", "post"] = "post",
        **kwargs,
    ):
        # As in `Attention`: the bias table must stay float32.
        super().__init__(autocast=False, **kwargs)
        if norm_placement not in ("pre", "post"):
            raise ConfigError(
                f"{self.name}: norm_placement={norm_placement!r} is not one of "
                "'pre', 'post'"
            )
        self.self_attention = self_attention
        self.self_attention_norm = self_attention_norm
        self.self_attention_residual = self_attention_residual
        self.cross_attention = cross_attention
        self.cross_attention_norm = cross_attention_norm
        self.cross_attention_residual = cross_attention_residual
        self.feedforward = feedforward
        self.feedforward_norm = feedforward_norm
        self.feedforward_residual = feedforward_residual
        self.norm_placement = norm_placement
        self.rematerialize = False

    def build(self, inputs_shape):
        for name in SUBLAYERS:
            if getattr(self, name) is None:
                continue
            getattr(self, name).build(inputs_shape)
            getattr(self, f"{name}_norm").build(inputs_shape)
            getattr(self, f"{name}_residual").build(inputs_shape)

    def __call__(self, *args, **kwargs):
        # Models saved by version 0.1.0 have an earlier name of the argument.
        if "context_places" in kwargs:
            kwargs["context_info"] = kwargs.pop("context_places")
        return super().__call__(*args, **kwargs)

    def call(
        self, inputs, sequence_info, context=None, context_info=None, training=None
    ):
        if not (training and self.rematerialize):
            return self._call(inputs, sequence_info, context, context_info, training)
        # These get gradients; the other entries of `sequence_info` are integers.
        into = {"context": context, "bias_table": sequence_info.get("bias_table")}
        into = {name: x for name, x in into.items() if x is not None}
        seeds = Seeds(self)

        def call(inputs, *rest):
            given = dict(zip(into, rest, strict=True))
            seen = {**sequence_info, **given}
            context = seen.pop("context", None)
            with seeds.held():
                return self._call(inputs, seen, context, context_info, training)

        outputs = rematerialize(call, inputs, *into.values())
        seeds.count()
        return outputs

    def _call(self, inputs, sequence_info, context, context_info, training):
        def attend(x):
            return self.self_attention(x, sequence_info, training=training)

        def attend_to_context(x):
            assert self.cross_attention is not None
            return self.cross_attention(
                x, context, sequence_info, context_info, training=training
            )

        return self._stack(inputs, attend, attend_to_context, training)

    def step(self, inputs, sequence_info, cache, index, context_info=None):
        """Processes new tokens, with a cache of the tokens before them.

        Args:
            inputs: float `(B, Q, D)`, the new tokens.
            sequence_info: See `step` of the attention layer.
            cache: dict: `self_attention` is the cache of the self-attention layer, and
                `cross_attention` the keys and values of the context.
            index: int32 scalar, the number of tokens in the cache.
            context_info: `padding_mask` of the context.

        Returns:
            `(B, Q, D)`, and the new cache.
        """
        kept = dict(cache)

        def attend(x):
            x, kept["self_attention"] = self.self_attention.step(
                x, sequence_info, cache["self_attention"], index
            )
            return x

        def attend_to_context(x):
            assert self.cross_attention is not None
            return self.cross_attention.step(x, context_info, cache["cross_attention"])

        return self._stack(inputs, attend, attend_to_context, False), kept

    def _stack(self, x, attend, attend_to_context, training):
        """The sub-layers in their order, each with its norm and its residual."""
        x = self._sublayer(x, "self_attention", attend, training)
        if self.cross_attention is not None:
            x = self._sublayer(x, "cross_attention", attend_to_context, training)

        def feed_forward(x):
            assert self.feedforward is not None
            return self.feedforward(x, training=training)

        if self.feedforward is not None:
            x = self._sublayer(x, "feedforward", feed_forward, training)
        return activation(self, "output", x)

    def _sublayer(self, x, name, function, training):
        norm = getattr(self, f"{name}_norm")
        residual = getattr(self, f"{name}_residual")
        if self.norm_placement == "pre":
            return residual(x, function(norm(x)), training=training)
        return norm(residual(x, function(x), training=training))

    def get_config(self):
        config = super().get_config()
        for name in PARTS:
            if config[name] is not None:
                # With its shapes Keras would build the part before the block, and the
                # paths of the part's weights would lack the block's name.
                config[name].pop("build_config", None)
        return config
