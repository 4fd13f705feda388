"""Positions as a pull towards the near: nothing is added to the tokens."""

import keras
import numpy as np
from keras import ops

# What a key on the far side of a head's direction loses: exp(-4) leaves it 2%.
OTHER_SIDE = 4.0


@keras.saving.register_keras_serializable(package="transbeam")
class LinearBias(keras.layers.Layer):
    """Takes from each attention score the more, the farther the key is away (ALiBi).

    Heads come in pairs of one slope, from steep to flat. One head of a pair leans to
    the left and the other to the right, for without a direction an encoder could not
    tell what comes before from what comes after. A model with this bias sees its
    neighbours from the first step on, where one with learned positions must first
    learn to.

    Only differences of places count, so the places may be counted along the row even
    where several documents are packed into it.

    Shapes: `B` batch, `H` heads, `T` length.

    Args:
        num_heads: int, even. `H`.

    Call arguments:
        inputs: float `(B, H, T, T)`, the scores, query by key.

    Returns:
        As `inputs`.

    Example:
    >>> bias = LinearBias(num_heads=2)
    >>> ops.convert_to_numpy(bias(ops.zeros((1, 2, 3, 3))))[0, 0]  # leans left
    array([[ 0., -5., -6.],
           [-1.,  0., -5.],
           [-2., -1.,  0.]], dtype=float32)

    Masking: the Keras mask means nothing here.

    References:
        - [Press et al., 2022](https://arxiv.org/abs/2108.12409), section 3, for
          decoders. The directions, and slopes that begin at 1 and go down in steps of
          `2 ** (-8 / pairs)`, are our own change to it.
    """

    def __init__(self, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        pairs = num_heads // 2
        self.slopes = np.repeat(2.0 ** (-8.0 * np.arange(pairs) / pairs), 2)  # (H,)
        self.leans_left = np.arange(num_heads) % 2 == 0  # (H,)

    def call(self, inputs):
        place = ops.arange(ops.shape(inputs)[-1], dtype="float32")  # (T,)
        ahead = ops.expand_dims(place, 0) - ops.expand_dims(place, 1)  # (T, T)
        left = ops.where(ahead > 0, OTHER_SIDE, 0.0)  # (T, T)
        right = ops.where(ahead < 0, OTHER_SIDE, 0.0)
        slopes = self.slopes.reshape(-1, 1, 1).astype("float32")  # (H, 1, 1)
        leans_left = self.leans_left.reshape(-1, 1, 1)
        loss = slopes * ops.abs(ahead) + ops.where(leans_left, left, right)  # (H, T, T)
        return inputs - ops.cast(loss, inputs.dtype)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}
