"""ALiBi: linear position biases of attention scores."""

import math

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.base_layer import ConfiguredLayer
from transbeam.model.layers.positions.score_bias import keys_ahead, score_spec

# Penalty of a key on the side opposite to a head's direction: exp(-4) is 2%.
OTHER_SIDE = 4.0


@keras.saving.register_keras_serializable(package="transbeam")
class LinearBias(ConfiguredLayer):
    """Subtracts a linear function of the distance from attention scores (ALiBi).

    Each head has its own slope, from steep to flat. Nothing is learned, and distances
    are unbounded, so a decoder extrapolates beyond its training length.

    In an encoder, the distance alone does not determine if a key is before or after the
    query. With `directed`, heads form pairs of equal slopes, in which one head favors
    keys on the left and the other keys on the right. An encoder with `directed` biases
    attends to neighboring tokens from the first training step on; an encoder with
    learned positions must learn to do so.

    Shapes: `H` heads, `Q` queries, `S` keys.

    Args:
        num_heads: int. `H`; must be even if `directed` is true.
        directed: bool. If true, each head favors the keys on one side of the query.

    Call arguments:
        query_positions: int `(..., Q)`.
        key_positions: int `(..., S)`; the leading axes broadcast with those of
            `query_positions`.
        bias_table: Ignored, as ALiBi has no learned table; accepted for the interface
            of score biases.

    Returns:
        float32 `(..., H, Q, S)` for every dtype policy, to be added to the scores.

    Raises:
        ConfigError: The number of heads is odd and `directed` is true.
        ValueError: Positions are not integers.

    Example:
    >>> positions = ops.arange(3)
    >>> ops.convert_to_numpy(LinearBias(num_heads=8)(positions, positions))[0]
    array([[ 0. , -0.5, -1. ],
           [-0.5,  0. , -0.5],
           [-1. , -0.5,  0. ]], dtype=float32)
    >>> directed = LinearBias(num_heads=2, directed=True)
    >>> ops.convert_to_numpy(directed(positions, positions))[0]  # leans left
    array([[ 0., -5., -6.],
           [-1.,  0., -5.],
           [-2., -1.,  0.]], dtype=float32)

    Masking: the Keras mask is ignored.

    References:
        - [Press et al., 2022](https://arxiv.org/abs/2108.12409), section 3, for
          decoders. The directions, and slopes that decrease from 1 by
          factors of `2 ** (-8 / pairs)`, are our own modification.
    """

    def __init__(self, num_heads: int, directed: bool = False, **kwargs):
        # The result is float32 for every policy: bfloat16 has no odd numbers above 256.
        super().__init__(autocast=False, **kwargs)
        if directed and num_heads % 2:
            raise ConfigError(
                f"{self.name}: num_heads={num_heads} is odd; directed=True needs pairs "
                "of heads, one for each direction"
            )
        self.num_heads = num_heads
        self.directed = directed
        slopes = directed_slopes(num_heads) if directed else alibi_slopes(num_heads)
        self.slopes = slopes.reshape(-1, 1, 1).astype("float32")  # (H, 1, 1)
        self.leans_left = np.arange(num_heads).reshape(-1, 1, 1) % 2 == 0

    def call(self, query_positions, key_positions, bias_table=None):
        ahead = keys_ahead(query_positions, key_positions, self.name)
        ahead = ops.expand_dims(ahead, -3)  # (..., 1, Q, S)
        bias = ops.cast(-ops.abs(ahead), "float32") * self.slopes  # (..., H, Q, S)
        if self.directed:
            other_side = ops.where(self.leans_left, ahead > 0, ahead < 0)
            bias = bias - ops.where(other_side, OTHER_SIDE, 0.0)
        return bias

    def compute_output_spec(self, query_positions, key_positions, bias_table=None):
        return score_spec(query_positions, key_positions, self.num_heads)


def alibi_slopes(num_heads: int) -> np.ndarray:
    """The paper's slopes: `2 ** (-8 i / H)` for the i-th head, from 1 on.

    If the number of heads is not a power of two, the authors use the slopes of the next
    smaller power, and then every other slope of the next larger one.

    Example:
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    >>> alibi_slopes(6)[4:]
    array([0.5  , 0.125])
    """
    smaller = 2 ** int(math.log2(num_heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, smaller + 1) / smaller)
    between = 2.0 ** (-4.0 * np.arange(1, 2 * smaller, 2) / smaller)
    return np.concatenate([slopes, between[: num_heads - smaller]])


def directed_slopes(num_heads: int) -> np.ndarray:
    """Computes slopes for pairs of heads: decreasing from 1, each slope twice.

    Example:
    >>> directed_slopes(4)
    array([1.    , 1.    , 0.0625, 0.0625])
    """
    pairs = num_heads // 2
    return np.repeat(2.0 ** (-8.0 * np.arange(pairs) / pairs), 2)
