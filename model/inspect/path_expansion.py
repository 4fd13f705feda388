"""Path expansion: the logits of an attention-only decoder as a sum over paths.

With its attention patterns and its norms' scales as they were in a pass, such a model
is linear in the embeddings. Its logits are a sum over all paths from the embeddings to
the output: the direct path, which skips every head, a path through each head, and in
deeper models paths through several heads, one in each layer at most, which are called
virtual heads. What biases add, along whatever path, is one further term.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.norms import LayerNormalization
from transbeam.model.stack.layer_stack import LayerStack

# The layer and the head of every head on a path, from the embeddings on.
HeadPath = tuple[tuple[int, int], ...]

# Each path has an activation of the model's width for every token.
MOST_PATHS = 4096


@dataclass(frozen=True)
class PathExpansion:
    """The terms whose sum is the input of the output layer.

    Attributes:
        paths: The paths; `()` is the direct one.
        vectors: float32 `(P, B, T, D)`, the term of each path, behind the final norm's
            scale.
        bias: float32 `(B, T, D)`, the term of all biases.
        model: The model.
    """

    paths: tuple[HeadPath, ...]
    vectors: Any
    bias: Any
    model: keras.Model

    def at(self, position: int) -> "PathExpansion":
        """Returns the terms of one position, `T` = 1."""
        one = slice(position, position + 1)
        vectors, bias = self.vectors[:, :, one], self.bias[:, one]
        return replace(self, vectors=vectors, bias=bias)

    def logits(self) -> Iterator[tuple[HeadPath | None, Any]]:
        """Yields each path's term of the logits, float32 `(B, T, V)`; last the biases'.

        The biases' term has None for a path. The terms' sum is the model's logits.
        """
        for path, vectors in zip(self.paths, self.vectors, strict=True):
            yield path, _score(self.model, vectors)
        yield None, _score(self.model, self.bias)


def expand_paths(model: keras.Model, inputs: Mapping[str, Any]) -> PathExpansion:
    """Computes the term of every path in a pass of an attention-only decoder.

    Args:
        model: A decoder with `feedforward.kind: none`, `norm.placement: pre` and full
            attention.
        inputs: The model's inputs.

    Returns:
        The terms of `(1 + H) ** L` paths, with `H` heads in each of `L` layers.

    Raises:
        ConfigError: The model is of another kind, or has too many paths.

    Example:
    >>> import numpy as np
    >>> from transbeam.configs.schema.block import LayerNormConfig, NoFeedForwardConfig
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> config = DecoderConfig(
    ...     num_layers=1,
    ...     hidden_dim=8,
    ...     norm=LayerNormConfig(placement="pre"),
    ...     feedforward=NoFeedForwardConfig(),
    ... )
    >>> decoder = build_decoder(config, 10)
    >>> ids = np.array([[1, 2, 3]], "int32")
    >>> inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    >>> expansion = expand_paths(decoder, inputs)
    >>> expansion.paths
    ((), ((0, 0),), ((0, 1),), ((0, 2),), ((0, 3),))
    >>> total = sum(logits for _, logits in expansion.logits())
    >>> bool(np.allclose(total, decoder(inputs)["logits"], atol=1e-4))
    True

    References:
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html),
          "Path Expansion of Logits" of one-layer and of two-layer models; there without
          norms and biases
    """
    stack = LayerStack.from_model(model)
    _check(model, stack)
    patterns = attention_probabilities(model, dict(inputs))
    hidden = with_hidden_states(model)(inputs, training=False)
    embeddings = ops.cast(hidden["embeddings"], "float32")
    paths: list[HeadPath] = [()]
    terms, bias = ops.expand_dims(embeddings, 0), ops.zeros_like(embeddings)
    for number, block in enumerate(stack.blocks):
        attention, pattern = block.self_attention, patterns[block.self_attention.path]
        temper = block.self_attention_residual.temper
        inner, inner_bias = _normalize(block.self_attention_norm, terms, bias)
        added = temper(_read_and_write(attention, pattern, inner), training=False)
        constant = _read_and_write(attention, pattern, ops.expand_dims(inner_bias, 0))
        constant = ops.sum(constant[0], axis=0) + _biases(attention)
        bias = bias + temper(constant, training=False)
        terms = ops.concatenate([terms, ops.reshape(added, (-1, *bias.shape))])
        heads = range(attention.num_heads)
        paths += [(*path, (number, head)) for path in paths for head in heads]
    vectors, bias = _normalize(stack.final_norm, terms, bias)
    return PathExpansion(tuple(paths), vectors, bias, model)


def _check(model: keras.Model, stack: LayerStack) -> None:
    """Checks that a model is a sum over paths, and not over too many."""
    reason, number = "", 1
    attentions = [block.self_attention for block in stack.blocks]
    is_decoder = "token_ids" in model.input and "logits" in model.output
    if not is_decoder or not all(attention.causal for attention in attentions):
        reason = "it is not a decoder"
    elif stack.final_norm is None:
        reason = "norm.placement is post: each block's output is normalized as a whole"
    for block in stack.blocks:
        if block.feedforward is not None:
            reason = (
                reason or "its blocks have feed-forward layers, which are nonlinear"
            )
        elif type(block.self_attention) is not MultiHeadAttention:
            reason = reason or "its attention is not of kind full"
        number *= 1 + block.self_attention.num_heads
    if reason:
        raise ConfigError(
            f"{model.name}: its logits are not a sum over paths: {reason}. Train a "
            "decoder with feedforward.kind=none, norm.placement=pre and "
            "attention.kind=full"
        )
    if number > MOST_PATHS:
        raise ConfigError(
            f"{model.name}: {len(stack.blocks)} layers have {number:,} paths, more "
            f"than {MOST_PATHS:,}. Expand a model of fewer layers or heads"
        )


def _normalize(norm: Any, terms: Any, bias: Any) -> tuple[Any, Any]:
    """Normalizes each term by the mean and scale of the sum of all terms."""
    is_centered = isinstance(norm, LayerNormalization)

    def center(x: Any) -> Any:
        return x - ops.mean(x, axis=-1, keepdims=True) if is_centered else x

    whole = center(ops.sum(terms, axis=0) + bias)
    variance = ops.mean(ops.square(whole), axis=-1, keepdims=True)
    scale = ops.rsqrt(variance + norm.epsilon) * ops.cast(norm.gamma, "float32")
    bias = center(bias) * scale
    return center(terms) * scale, bias + norm.beta if is_centered else bias


def _read_and_write(attention: MultiHeadAttention, pattern: Any, terms: Any) -> Any:
    """Moves terms `(P, B, T, D)` through each head: `(P, H, B, T, D)`, without biases.

    The pattern is `(B, H, T, S)`; a head's values are linear in what it reads.
    """
    heads, groups = attention.num_heads, attention.num_key_value_heads
    into = ops.reshape(attention.value.kernel, (-1, groups, attention.head_dim))
    into = ops.repeat(into, heads // groups, axis=1)  # (D, H, K)
    out = ops.reshape(
        attention.output_projection.kernel, (heads, attention.head_dim, -1)
    )
    values = ops.einsum("pbsd,dhk->pbshk", terms, into)
    mixed = ops.einsum("bhts,pbshk->pbhtk", pattern, values)
    return ops.einsum("pbhtk,hkd->phbtd", mixed, out)


def _biases(attention: MultiHeadAttention) -> Any:
    """Computes what the value and output biases add to every token: `(D,)`, or 0.

    The weights of a head sum to one, so the value's bias passes every pattern as it is.
    """
    total, output = 0.0, attention.output_projection
    if attention.projection_bias:
        groups, width = attention.num_key_value_heads, attention.head_dim
        bias = ops.reshape(attention.value.bias, (groups, width))
        bias = ops.repeat(bias, attention.num_heads // groups, axis=0)
        total = ops.matmul(ops.reshape(bias, (-1,)), output.kernel)
    return total + output.bias if attention.output_bias else total


def _score(model: keras.Model, vectors: Any) -> Any:
    """Computes logits by the model's output layers, which have no bias."""
    layers = {layer.name: layer for layer in model.layers}
    if (untied := layers.get("logits")) is not None:
        return untied(vectors)
    if (narrow := layers.get("logits_projection")) is not None:
        vectors = narrow(vectors)
    return layers["token_embedding"](vectors, reverse=True)
