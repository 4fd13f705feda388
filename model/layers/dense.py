"""The dense layer that all layers use."""

import keras

from transbeam.model.kernels.dense import dense


@keras.saving.register_keras_serializable(package="transbeam")
class Dense(keras.layers.Dense):
    """Keras's dense layer, computed as one kernel with its bias and its activation.

    Arguments, weights, adapters and quantization are Keras's.

    Call arguments:
        inputs: float `(..., D)`.

    Returns:
        `(..., units)` in the compute dtype.

    Example:
    >>> tuple(Dense(4)(keras.ops.ones((1, 3, 2))).shape)
    (1, 3, 4)

    Masking: passes the Keras mask through unchanged.
    """

    def call(self, inputs, training=None):
        return dense(inputs, self.kernel, self.bias, self.activation)

    def quantize(self, mode=None, type_check=True, config=None):
        # Without `type_check=False` Keras does not quantize subclasses.
        super().quantize(mode, type_check=False, config=config)
