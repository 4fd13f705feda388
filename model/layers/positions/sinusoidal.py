"""Sinusoidal position embeddings."""

import keras
import numpy as np
from keras import ops

from transbeam.model.layers.base_layer import TokenwiseLayer
from transbeam.model.layers.positions.position_addition import add_position_rows


@keras.saving.register_keras_serializable(package="transbeam")
class SinusoidalPositionEmbedding(TokenwiseLayer):
    """Adds fixed sines and cosines, whose wavelengths grow along the vector.

    A given distance between two positions corresponds to the same rotation at every
    position, so a linear layer can determine distances. Nothing is learned.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        max_sequence_length: int. Number of positions.
        max_wavelength: float. Upper bound of the wavelengths, in units of 2 pi tokens.

    Call arguments:
        inputs: float `(B, T, D)`.
        position_ids: int `(B, T)`, restarting at 0 in every packed document; or
            None for 0, 1, 2, ... in every row.

    Returns:
        `(B, T, D)` in the compute dtype.

    Raises:
        ValueError: `inputs` or `position_ids` has a wrong rank, length or dtype; or a
            position is not below `max_sequence_length`. Positions are checked in eager
            execution; without `position_ids`, whenever `T` is known.

    Example:
    >>> positions = SinusoidalPositionEmbedding(max_sequence_length=8)
    >>> ops.convert_to_numpy(positions(ops.zeros((1, 2, 2)))).round(4)[0]
    array([[0.    , 1.    ],
           [0.8415, 0.5403]], dtype=float32)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.5
    """

    def __init__(
        self,
        max_sequence_length: int,
        max_wavelength: float = 10_000.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = max_sequence_length
        self.max_wavelength = max_wavelength

    def build(self, inputs_shape):
        self.waves = sinusoids(
            self.max_sequence_length, inputs_shape[-1], self.max_wavelength
        )

    def call(self, inputs, position_ids=None):
        table = ops.convert_to_tensor(self.waves, dtype=self.compute_dtype)
        return add_position_rows(inputs, table, position_ids, self.name)


def sinusoids(
    num_positions: int, hidden_dim: int, max_wavelength: float = 10_000.0
) -> np.ndarray:
    """Computes the table: sines in the even columns, cosines in the odd ones.

    Args:
        num_positions: Rows.
        hidden_dim: Columns.
        max_wavelength: See `SinusoidalPositionEmbedding`.

    Returns:
        float32 `(num_positions, hidden_dim)`, computed in float64.

    Example:
    >>> sinusoids(2, 2).round(4)
    array([[0.    , 1.    ],
           [0.8415, 0.5403]], dtype=float32)
    """
    column = np.arange(hidden_dim)
    wavelength = max_wavelength ** (2 * (column // 2) / hidden_dim)
    angle = np.arange(num_positions)[:, np.newaxis] / wavelength  # (P, D)
    return np.where(column % 2, np.cos(angle), np.sin(angle)).astype("float32")
