"""Direct logit attribution: a logit as a sum of what the parts of a model add to it.

In a decoder with `norm.placement: pre` the last hidden state is a sum: the embeddings,
and what each sub-layer adds. The final norm is linear once its scale is fixed, and so
are the logits; each term of the sum has its share of the logit. The shares are direct
effects only: what a head changes for later layers counts as the later layers'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.linear_head import LinearHead, read_kernel
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.block import SUBLAYERS, TransformerBlock
from transbeam.model.layers.norms import LayerNormalization
from transbeam.model.stack.layer_stack import LayerStack

# Largest difference between a sum and what the model computed, as a share of the
# largest absolute value.
_TOLERANCE = 1e-4


class ResidualPart(NamedTuple):
    """A term of the residual stream.

    Attributes:
        layer: The path of the layer that adds it; with `/bias` where it is a bias.
        head: The head of an attention layer, from 0; -1 for other terms.
    """

    layer: str
    head: int = -1


@dataclass(frozen=True)
class LogitAttribution:
    """The contributions of the parts of a model to a logit of each row.

    Attributes:
        parts: The parts, in the order of their computation.
        contributions: float64 `(B, parts)`.
        logits: float32 `(B,)`: the logits, or differences of logits, that the model
            computed; the sums of the contributions.
    """

    parts: tuple[ResidualPart, ...]
    contributions: np.ndarray
    logits: np.ndarray


def find_linear_stack(model: keras.Model) -> LayerStack:
    """Returns the layers of a decoder whose last hidden state is a sum of its parts.

    Raises:
        ConfigError: The model is no decoder, or its norms are behind the sums.
    """
    names = {layer.name for layer in model.layers}
    if "encoder_layer_0" in names and "decoder_layer_0" in names:
        raise ConfigError(
            "in an encoder-decoder a logit depends on two residual streams, and is "
            "attributed in decoders only"
        )
    if "decoder_layer_0" not in names:
        raise ConfigError(
            "logits are attributed to the parts of a decoder. An encoder's head of "
            "masked tokens is not linear, and others have no logits over the vocabulary"
        )
    stack = LayerStack.from_model(model)
    if any(block.norm_placement != "pre" for block in stack.blocks):
        raise ConfigError(
            "norm.placement=post: every sum is normalized, and a logit is no sum of "
            "what the layers add. Logits are attributed with norm.placement=pre"
        )
    return stack


def attribute_logits(
    model: keras.Model,
    inputs: Mapping[str, Any],
    positions: np.typing.ArrayLike,
    token_ids: np.typing.ArrayLike,
    against: np.typing.ArrayLike | None = None,
) -> LogitAttribution:
    """Splits a logit of each row into contributions of the model's parts.

    The parts are the token embedding, the position embedding, each attention head, the
    bias of each attention's output, each feed-forward layer with its biases, and the
    offset of the final norm. The model is called once, eagerly; the final norm's scale
    is that of the same pass.

    Args:
        model: A decoder of `build_decoder` or `build_model`.
        inputs: The model's inputs, by name, `B` rows.
        positions: int `(B,)`. The position of the logit in each row.
        token_ids: int `(B,)`. The token of the logit in each row.
        against: int `(B,)`. If given, differences of logits are split: those of
            `token_ids` minus those of `against`.

    Returns:
        The contributions, which add up to the logits.

    Raises:
        ConfigError: The logits are not a sum of contributions, as the model is no
            decoder or its norms are behind the sums; a matrix is quantized or has an
            adapter; a position or a token is out of range; or the contributions do not
            add up to what the model computed.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ids = np.array([[1, 2, 3]], "int32")
    >>> inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    >>> found = attribute_logits(decoder, inputs, positions=[2], token_ids=[4])
    >>> [part.head for part in found.parts if "self_attention" in part.layer]
    [0, 1, 2, 3, -1]
    >>> bool(abs(found.contributions.sum() - found.logits[0]) < 1e-4)
    True

    References:
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html)
          (the sum of paths)
        - `logit_attrs` of [TransformerLens](https://github.com/TransformerLensOrg/TransformerLens),
          `ActivationCache.py` (the final norm's scale from the same pass)
    """
    stack = find_linear_stack(model)
    head = LinearHead.from_model(model)
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    num_rows, length = inputs["token_ids"].shape
    rows, vocabulary_size = np.arange(num_rows), len(head.table)
    positions = _check_indices(positions, num_rows, length, "position")
    token_ids = _check_indices(token_ids, num_rows, vocabulary_size, "token")
    if against is not None:
        against = _check_indices(against, num_rows, vocabulary_size, "token")
    with recorded("/heads", "_residual/update", "/output") as seen:
        logits = ops.convert_to_numpy(model(inputs, training=False)["logits"])

    def select(activation: Any) -> np.ndarray:
        return ops.convert_to_numpy(activation)[rows, positions].astype("float64")

    parts = {
        part: select(x) for part, x in _split_embeddings(model, stack, inputs).items()
    }
    for block in stack.blocks:
        for name in SUBLAYERS:
            update = seen.get(f"{block.path}/{name}_residual/update")
            if update is None:
                continue
            layer = getattr(block, name)
            if isinstance(layer, Attention):
                heads = select(seen[f"{layer.path}/heads"])
                split = _split_attention(block, name, heads)
                _check_sum(split.values(), select(update), layer.path)
                parts |= split
            else:
                parts[ResidualPart(layer.path)] = select(update)
    stream = select(seen[f"{stack.blocks[-1].path}/output"])
    _check_sum(parts.values(), stream, "the residual stream")

    directions = head.read_directions(token_ids).astype("float64")
    found = logits[rows, positions, token_ids]
    if against is not None:
        directions = directions - head.read_directions(against)
        found = found - logits[rows, positions, against]
    assert stack.final_norm is not None
    vectors = freeze_norm(np.stack(list(parts.values()), 1), stream, stack.final_norm)
    contributions = np.einsum("bpd,bd->bp", vectors, directions)
    names = list(parts)
    if isinstance(stack.final_norm, LayerNormalization):
        names.append(ResidualPart(f"{stack.final_norm.path}/bias"))
        offset = directions @ ops.convert_to_numpy(stack.final_norm.beta)
        contributions = np.concatenate([contributions, offset[:, None]], axis=1)
    _check_sum(contributions.T, found, "the logit")
    return LogitAttribution(tuple(names), contributions, found)


def freeze_norm(
    parts: np.ndarray, whole: np.ndarray, norm: keras.layers.Layer
) -> np.ndarray:
    """Normalizes the parts of a vector by the scale of the whole vector.

    Args:
        parts: `(B, parts, D)`.
        whole: `(B, D)`, the sum of the parts.
        norm: A `LayerNormalization` or `RMSNormalization`.

    Returns:
        `(B, parts, D)`; the sum of the parts is the norm of the whole, except for the
        offset of a layer norm.

    Example:
    >>> parts = np.array([[[2.0, 0, 1], [1, -1, 0]]])
    >>> norm = LayerNormalization()
    >>> norm.build((None, 3))
    >>> vectors = freeze_norm(parts, parts.sum(axis=1), norm)
    >>> (vectors @ np.array([1, 0, -1])).round(4)
    array([[0.6124, 0.6124]])
    """
    if isinstance(norm, LayerNormalization):
        parts = parts - parts.mean(axis=-1, keepdims=True)
        whole = whole - whole.mean(axis=-1, keepdims=True)
    scale = np.sqrt(np.mean(whole**2, axis=-1) + norm.epsilon)
    return parts / scale[:, None, None] * ops.convert_to_numpy(norm.gamma)


def _check_indices(
    indices: np.typing.ArrayLike, number: int, end: int, what: str
) -> np.ndarray:
    """Checks that there is an index for each row, and that none is out of range."""
    indices = np.asarray(indices)
    if indices.shape != (number,):
        raise ConfigError(
            f"{indices.size} {what}s are given for {number} rows. Give one for each"
        )
    for index in indices[(indices < 0) | (indices >= end)]:
        raise ConfigError(f"{what} {index} is out of range: give 0 to {end - 1}")
    return indices


def _split_embeddings(
    model: keras.Model, stack: LayerStack, inputs: Mapping[str, Any]
) -> dict[ResidualPart, Any]:
    """Computes the terms of the stack's input: `(B, T, D)` each."""
    embedding = model.get_layer("token_embedding")
    tokens = embedding(inputs["token_ids"])
    vectors = {ResidualPart(embedding.path): tokens}
    whole = tokens
    if (layer := stack.position_embedding) is not None:
        whole = layer(tokens, inputs.get("position_ids"))
        vectors[ResidualPart(layer.path)] = whole - tokens
    if stack.embeddings_norm is not None:  # of the sum, which has no parts behind it
        layer = stack.embeddings_norm
        vectors = {ResidualPart(layer.path): layer(whole)}
    if (layer := stack.embedding_projection) is not None:
        kernel = read_kernel(layer)
        vectors = {part: ops.matmul(x, kernel) for part, x in vectors.items()}
        bias = ops.broadcast_to(layer.bias, (*ops.shape(tokens)[:2], len(kernel[0])))
        vectors[ResidualPart(f"{layer.path}/bias")] = bias
    return vectors


def _split_attention(
    block: TransformerBlock, name: str, heads: np.ndarray
) -> dict[ResidualPart, np.ndarray]:
    """Computes what the heads, and the output's bias, add to the residual stream.

    Args:
        block: The block.
        name: The attention's name in the block.
        heads: The heads' outputs, `(B, H, K)`.

    Returns:
        `(B, D)` by part.
    """
    layer = getattr(block, name)
    kernel = read_kernel(layer.output_projection)
    kernel = kernel.reshape(layer.num_heads, layer.head_dim, -1)
    updates = np.einsum("bhk,hkd->bhd", heads, kernel)
    parts = [ResidualPart(layer.path, head) for head in range(layer.num_heads)]
    if layer.output_bias:
        parts.append(ResidualPart(f"{layer.path}/bias"))
        bias = ops.convert_to_numpy(layer.output_projection.bias)
        bias = np.broadcast_to(bias, (len(heads), 1, len(bias)))
        updates = np.concatenate([updates, bias], axis=1)
    # A residual connection may scale what it adds; without dropout that is linear.
    residual = getattr(block, f"{name}_residual")
    updates = residual.temper(ops.convert_to_tensor(updates, "float32"), False)
    updates = ops.convert_to_numpy(updates).astype("float64")
    return dict(zip(parts, np.moveaxis(updates, 1, 0), strict=True))


def _check_sum(parts: Any, whole: np.ndarray, what: str) -> None:
    """Checks that parts add up to what the model computed."""
    error = np.abs(np.sum(list(parts), axis=0) - whole).max()
    if not error <= _TOLERANCE * max(1.0, np.abs(whole).max()):
        raise ConfigError(
            f"the parts of {what} do not add up to what the model computed: they "
            f"differ by {error:.2g}. Give a model with dtype float32; if it is, it has "
            "layers that are not attributed"
        )
