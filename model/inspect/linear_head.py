"""Weights of a model's linear parts: norms' gains, and the output layer's matrix."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.lm_head import VocabularyProjection
from transbeam.model.layers.norms import LayerNormalization


def read_kernel(layer: keras.layers.Layer, name: str = "kernel") -> np.ndarray:
    """Reads a matrix of a layer, float32.

    Args:
        layer: A dense layer, or the layer of a table.
        name: The weight's name.

    Raises:
        ConfigError: The layer is quantized or has an adapter, so that its matrix is not
            the one it computes with.

    Example:
    >>> layer = keras.layers.Dense(2)
    >>> layer.build((None, 3))
    >>> read_kernel(layer).shape
    (3, 2)
    """
    if layer.quantization_mode is not None:
        raise ConfigError(
            f"{layer.path} is quantized ({layer.quantization_mode}), and its matrix is "
            "read as floats. Analyze the model that was quantized"
        )
    if getattr(layer, "lora_enabled", False):
        raise ConfigError(
            f"{layer.path} has an adapter, which its matrix does not contain. Merge "
            "the adapter first"
        )
    return ops.convert_to_numpy(getattr(layer, name)).astype("float32")


def fold_norm(kernel: np.ndarray, norm: keras.layers.Layer | None) -> np.ndarray:
    """Multiplies a matrix by the gain of the norm in front of it.

    The norm divides a vector by a number, after `LayerNormalization` has subtracted its
    mean; gain and mean can be moved into the matrix that reads the vector: rows are
    multiplied by the gain, and columns are centered. What is left of the norm is the
    division alone.

    Args:
        kernel: `(D, M)`, applied to row vectors.
        norm: The norm, with gain `(D,)`; None if nothing is to be folded.

    Returns:
        `(D, M)`.

    Example:
    >>> norm = LayerNormalization()
    >>> norm.build((None, 2))
    >>> fold_norm(np.array([[3.0], [1.0]]), norm)
    array([[ 1.],
           [-1.]])

    References:
        - `fold_ln` of [TransformerLens](https://github.com/TransformerLensOrg/TransformerLens),
          `weight_processing.py`
    """
    if norm is None:
        return kernel
    kernel = kernel * ops.convert_to_numpy(norm.gamma)[:, None]
    if isinstance(norm, LayerNormalization):
        kernel = kernel - kernel.mean(axis=0)
    return kernel


@dataclass(frozen=True)
class LinearHead:
    """The linear layers from the residual stream, behind its final norm, to logits.

    The logits are `x @ projection @ table.T`. In an encoder-decoder with `scale_logits`
    they are that times a positive constant, which is left out here.

    Attributes:
        table: float32 `(V, E)`, a row for each token.
        projection: float32 `(D, E)`, where tied embeddings are narrow; else None.
    """

    table: np.ndarray
    projection: np.ndarray | None

    @classmethod
    def from_model(cls, model: keras.Model) -> "LinearHead":
        """Reads the output layer of a decoder or an encoder-decoder.

        Raises:
            ConfigError: The model has no logits over a vocabulary, they are not a
                linear function of the hidden states, or a matrix is quantized or has an
                adapter.

        Example:
        >>> from transbeam.configs.schema.model import DecoderConfig
        >>> from transbeam.model.decoder import build_decoder
        >>> head = LinearHead.from_model(
        ...     build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
        ... )
        >>> head.table.shape, head.read_directions([3, 4]).shape
        ((10, 8), (2, 8))
        """
        layers = {layer.name: layer for layer in model.layers}
        if "head_dense" in layers:
            raise ConfigError(
                "the head of masked tokens has an activation and a norm, and a logit "
                "is no sum of contributions to its input. A decoder's head is linear"
            )
        if "logits" not in model.output or "decoder_layer_0" not in layers:
            raise ConfigError(
                "the model has no logits over its vocabulary. Give a decoder, or an "
                "encoder-decoder"
            )
        output = layers.get("logits")
        if isinstance(output, VocabularyProjection):
            return cls(read_kernel(output).T, None)
        embedding, projection = layers["token_embedding"], "logits_projection"
        table = read_kernel(embedding, "embeddings")[: embedding.vocabulary_size]
        if projection not in layers:
            return cls(table, None)
        return cls(table, read_kernel(layers[projection]))

    def read_directions(self, token_ids: np.typing.ArrayLike) -> np.ndarray:
        """Returns the vectors whose dot product with `x` is the logit of a token.

        Args:
            token_ids: int `(N,)`.

        Returns:
            `(N, D)`.
        """
        rows = self.table[np.asarray(token_ids)]
        return rows if self.projection is None else rows @ self.projection.T
