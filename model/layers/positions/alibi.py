"""Positions as a pull towards the near: nothing is added to the tokens."""

import math

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.positions.score_bias import keys_ahead, score_spec

# What a key on the far side of a head's direction loses: exp(-4) leaves it 2%.
OTHER_SIDE = 4.0


@keras.saving.register_keras_serializable(package="transbeam")
class LinearBias(keras.layers.Layer):
    """Takes from each attention score the more, the farther the key is away (ALiBi).

    Each head has its own slope, from steep to flat. Nothing is learned, and no
    distance is too far, so a decoder can read on beyond the length it was trained on.

    An encoder cannot tell by a distance alone what comes before from what comes
    after. With `directed`, heads come in pairs of one slope, and one head of a pair
    leans to the left and the other to the right. Such an encoder sees its neighbours
    from the first step on, where one with learned positions must first learn to.

    Shapes: `H` heads, `Q` queries, `S` keys.

    Args:
        num_heads: int. `H`; even when `directed`.
        directed: bool. Whether each head leans to one side.

    Call arguments:
        query_positions: int `(..., Q)`.
        key_positions: int `(..., S)`; the axes before broadcast.
        bias_table: Not used; other biases have one.

    Returns:
        float32 `(..., H, Q, S)` in every dtype policy, to be added to the scores.

    Raises:
        ConfigError: An odd number of heads when `directed`.
        ValueError: Positions that are not whole numbers.

    Example:
    >>> places = ops.arange(3)
    >>> ops.convert_to_numpy(LinearBias(num_heads=8)(places, places))[0]
    array([[ 0. , -0.5, -1. ],
           [-0.5,  0. , -0.5],
           [-1. , -0.5,  0. ]], dtype=float32)
    >>> directed = LinearBias(num_heads=2, directed=True)
    >>> ops.convert_to_numpy(directed(places, places))[0]  # leans left
    array([[ 0., -5., -6.],
           [-1.,  0., -5.],
           [-2., -1.,  0.]], dtype=float32)

    Masking: the Keras mask means nothing here.

    References:
        - [Press et al., 2022](https://arxiv.org/abs/2108.12409), section 3, for
          decoders. The directions, and slopes that begin at 1 and go down in steps of
          `2 ** (-8 / pairs)`, are our own change to it.
    """

    def __init__(self, num_heads: int, directed: bool = False, **kwargs):
        # The result is float32 whatever the policy: bfloat16 has no odd number
        # beyond 256.
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

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "directed": self.directed,
        }


def alibi_slopes(num_heads: int) -> np.ndarray:
    """The paper's slopes: `2 ** (-8 i / H)` for the i-th head, from 1 on.

    For numbers of heads that are no power of two, the authors take the slopes of the
    next smaller power, and then every other slope of the next larger one.

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
    """Our slopes for pairs of heads: from 1 down, each twice.

    Example:
    >>> directed_slopes(4)
    array([1.    , 1.    , 0.0625, 0.0625])
    """
    pairs = num_heads // 2
    return np.repeat(2.0 ** (-8.0 * np.arange(pairs) / pairs), 2)
