"""How what a sub-layer found joins what was there before."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="transbeam")
class Residual(keras.layers.Layer):
    """Adds a sub-layer's result, thinned by dropout, to the sub-layer's input.

    The input's path through a deep model stays free of any product, so its
    gradient reaches the first layer undamped.

    Shapes: `B` batch, `T` length, `D` hidden width.

    Args:
        dropout: float in `[0, 1)`. Share of the update that is dropped in training.
        seed: int or None. Seed of the dropout.

    Call arguments:
        inputs: float `(B, T, D)`, what went into the sub-layer.
        update: float `(B, T, D)`, what came out of it.

    Returns:
        `(B, T, D)` in the compute dtype.

    Example:
    >>> residual = Residual(dropout=0.1)
    >>> ops.convert_to_numpy(residual(ops.array([[[1.0]]]), ops.array([[[2.0]]])))
    array([[[3.]]], dtype=float32)

    Masking: passes the Keras mask of `inputs` through unchanged.

    References:
        - [He et al., 2016](https://arxiv.org/abs/1512.03385), equation 1
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 5.4
    """

    def __init__(self, dropout: float = 0.0, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True
        self.update_dropout = keras.layers.Dropout(
            dropout, seed=seed, name="dropout", dtype=self.dtype_policy
        )

    def build(self, inputs_shape, update_shape):
        self.update_dropout.build(update_shape)

    def call(self, inputs, update, training=None):
        return ops.add(inputs, self.update_dropout(update, training=training))

    def compute_output_shape(self, inputs_shape, update_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout, "seed": self.seed}
