"""Layer normalization and RMS normalization."""

import keras
from keras import ops

from transbeam.model.kernels.elementwise import layer_normalization
from transbeam.model.layers.base_layer import TokenwiseLayer


@keras.saving.register_keras_serializable(package="transbeam")
class LayerNormalization(TokenwiseLayer):
    """Normalizes each token's vector to mean 0 and variance 1, then rescales it.

    Keras's own layer computes `x * s - mean * s`, which loses precision if the mean is
    large compared to the standard deviation, and needs more passes over the tensor.
    This layer subtracts the mean first.

    Args:
        epsilon: float. Added to the variance to avoid division by zero.

    Call arguments:
        inputs: float tensor of any shape; its last axis is normalized.

    Returns:
        Same shape, in the compute dtype. Computed in float32.

    Example:
    >>> norm = LayerNormalization()
    >>> ops.convert_to_numpy(norm(ops.array([[1.0, 2.0, 3.0]]))).round(3)
    array([[-1.225,  0.   ,  1.225]], dtype=float32)

    Masking: passes the Keras mask through unchanged.

    References:
        - [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equation 3
    """

    def __init__(self, epsilon: float = 1e-12, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, inputs_shape):
        width = (inputs_shape[-1],)
        self.gamma = self.add_weight(
            name="gamma", shape=width, initializer="ones", autocast=False
        )
        self.beta = self.add_weight(
            name="beta", shape=width, initializer="zeros", autocast=False
        )

    def call(self, inputs):
        return layer_normalization(inputs, self.gamma, self.beta, self.epsilon)


@keras.saving.register_keras_serializable(package="transbeam")
class RMSNormalization(TokenwiseLayer):
    """Divides each token's vector by its root mean square, then rescales it.

    RMS normalization omits the mean and the bias of `LayerNormalization`, which cost an
    additional pass over the tensor and a weight per feature, and which deep models do
    not need.

    Args:
        epsilon: float. Added to the mean square to avoid division by zero.

    Call arguments, returned value and masking are those of `LayerNormalization`.

    Example:
    >>> norm = RMSNormalization()
    >>> ops.convert_to_numpy(norm(ops.array([[1.0, -1.0, 7.0, 7.0]]))).round(4)
    array([[ 0.2, -0.2,  1.4,  1.4]], dtype=float32)

    References:
        - [Zhang & Sennrich, 2019](https://arxiv.org/abs/1910.07467), equation 4
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, inputs_shape):
        self.gamma = self.add_weight(
            name="gamma", shape=(inputs_shape[-1],), initializer="ones", autocast=False
        )

    def call(self, inputs):
        x = ops.cast(inputs, "float32")
        mean_square = ops.mean(ops.square(x), axis=-1, keepdims=True)
        normalised = x * ops.rsqrt(mean_square + self.epsilon)
        return ops.cast(normalised * self.gamma, self.compute_dtype)
