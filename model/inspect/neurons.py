"""Units of feed-forward layers: what activates them, and what their outputs favor.

A feed-forward layer is `f(x K) V`: unit `i` is active where the input is close to its
key `k_i`, and then adds its value vector `v_i` to the hidden state. Both can be read:
the key by the texts that activate the unit most, the value by the tokens that the
output layer reads in it.

Shapes: `B` texts, `T` tokens, `I` units, `D` width, `V` vocabulary.

References:
    - [Geva et al., 2021](https://arxiv.org/abs/2012.14913)
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from transbeam.model.inspect.linear_head import LinearHead, read_kernel
from transbeam.model.layers.feedforward import FeedForward

UNITS = "units"
# Logits over the vocabulary that are held at once.
_MOST_LOGITS = 1 << 24


class UnitStatistics(NamedTuple):
    """Statistics of the units of a layer in some texts.

    Attributes:
        maximum: float32 `(B, I)`. The largest activation in each text; -inf in a text
            without tokens that count.
        position: int32 `(B, I)`. The position of that token, the first if several.
        total: float32 `(I,)`. Sum of the activations.
        squares: float32 `(I,)`. Sum of their squares.
        active: float32 `(I,)`. The number of tokens that activate the unit: with an
            activation above 0.
        active_share: float32 `(B,)`. Share of the units that a token of the text
            activates, mean over its tokens; 0 in a text without tokens.
        tokens: float32 `(B,)`. The number of tokens that count.
    """

    maximum: Any
    position: Any
    total: Any
    squares: Any
    active: Any
    active_share: Any
    tokens: Any


class ValueTokens(NamedTuple):
    """The tokens that the output layer reads in value vectors, the first first.

    Attributes:
        ids: int64 `(I, k)`.
        probabilities: float32 `(I, k)`, of `softmax(v E)`.
    """

    ids: np.ndarray
    probabilities: np.ndarray


def feedforward_layers(model: keras.Model) -> dict[str, FeedForward]:
    """Returns a model's feed-forward layers by path.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> list(feedforward_layers(decoder))
    ['decoder_layer_0/feedforward']
    """
    return {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, FeedForward)
    }


def measure_units(units: Any, real: Any) -> UnitStatistics:
    """Reduces the activations of a layer's units to statistics.

    Args:
        units: float `(B, T, I)`, the activation `.../feedforward/units`; see
            `transbeam.model.base.activation_hooks`.
        real: `(B, T)`, 1 for the tokens that count.

    Example:
    >>> units = np.array([[[1.0, -1.0], [3.0, -2.0], [9.0, 9.0]]])
    >>> found = measure_units(units, np.array([[1, 1, 0]]))
    >>> [ops.convert_to_numpy(x).ravel().tolist() for x in found[:3]]
    [[3.0, -1.0], [1, 0], [4.0, -3.0]]
    """
    units = ops.cast(units, "float32")
    real = ops.expand_dims(ops.cast(real, "float32"), 2)  # (B, T, 1)
    among = ops.where(real > 0, units, -np.inf)
    counted = units * real
    active = ops.cast(counted > 0, "float32")
    tokens = ops.sum(real, axis=(1, 2))
    cells = ops.maximum(tokens, 1.0) * units.shape[-1]
    return UnitStatistics(
        maximum=ops.max(among, axis=1),
        position=ops.cast(ops.argmax(among, axis=1), "int32"),
        total=ops.sum(counted, axis=(0, 1)),
        squares=ops.sum(ops.square(counted), axis=(0, 1)),
        active=ops.sum(active, axis=(0, 1)),
        active_share=ops.sum(active, axis=(1, 2)) / cells,
        tokens=tokens,
    )


class TopTexts:
    """The texts that activate each unit most, collected batch by batch.

    Memory does not depend on the number of texts.

    Args:
        units: `I`.
        k: Number of texts that are kept for each unit.

    Attributes:
        activations: float32 `(I, k)`, the largest first; -inf where there are fewer
            texts.
        texts: int64 `(I, k)`. The texts' numbers; -1 where there are fewer.
        positions: int32 `(I, k)`. The positions of the tokens.

    Example:
    >>> top = TopTexts(units=1, k=2)
    >>> top.update(np.array([7, 8]), np.array([[1.0], [5.0]]), np.array([[0], [4]]))
    >>> top.update(np.array([9]), np.array([[3.0]]), np.array([[2]]))
    >>> top.texts.tolist(), top.activations.tolist(), top.positions.tolist()
    ([[8, 9]], [[5.0, 3.0]], [[4, 2]])
    """

    def __init__(self, units: int, k: int):
        self._k = k
        self.activations = np.full((units, k), -np.inf, np.float32)
        self.texts = np.full((units, k), -1, np.int64)
        self.positions = np.zeros((units, k), np.int32)

    def update(
        self, texts: np.ndarray, maximum: np.ndarray, position: np.ndarray
    ) -> None:
        """Adds some texts, each of which is added once.

        Args:
            texts: int `(B,)`. The texts' numbers.
            maximum: float `(B, I)`. See `UnitStatistics`; -inf is not added.
            position: int `(B, I)`.
        """
        numbers = np.where(np.isfinite(maximum.T), texts, -1)
        activations = np.concatenate([self.activations, maximum.T], axis=1)
        # Stable: of equal activations the text that came first is kept.
        order = np.argsort(-activations, axis=1, kind="stable")[:, : self._k]

        def pick(kept: np.ndarray, added: np.ndarray) -> np.ndarray:
            both = np.concatenate([kept, added], axis=1)
            return np.take_along_axis(both, order, axis=1).astype(kept.dtype)

        self.activations = pick(self.activations, maximum.T)
        self.texts = pick(self.texts, numbers)
        self.positions = pick(self.positions, position.T)


def read_value_tokens(layer: FeedForward, head: LinearHead, k: int) -> ValueTokens:
    """Reads the value vectors of all units with the output layer.

    The final norm is left out, as by definition: a value vector is no hidden state.

    Args:
        layer: The feed-forward layer.
        head: The model's output layer.
        k: Number of tokens for each unit.

    Raises:
        ConfigError: The layer is quantized or has an adapter.

    References:
        - Geva et al., 2021, section 4
    """
    values = read_kernel(layer.output_projection)  # (I, D)
    if head.projection is not None:
        values = values @ head.projection
    k = min(k, len(head.table))
    step = max(1, _MOST_LOGITS // len(head.table))
    ids, probabilities = [], []
    for first in range(0, len(values), step):
        logits = values[first : first + step] @ head.table.T
        logits -= logits.max(axis=1, keepdims=True)
        top = np.argpartition(-logits, k - 1, axis=1)[:, :k]
        largest = np.take_along_axis(logits, top, axis=1)
        order = np.argsort(-largest, axis=1)
        ids.append(np.take_along_axis(top, order, axis=1))
        total = np.exp(logits).sum(axis=1, keepdims=True)
        probabilities.append(np.exp(np.take_along_axis(largest, order, 1)) / total)
    return ValueTokens(np.concatenate(ids), np.concatenate(probabilities))
