"""The activations that a config can name.

GELU is computed in float32 for every dtype; see `model/kernels/elementwise.py`.
"""

import keras

from transbeam.model.kernels import elementwise


@keras.saving.register_keras_serializable(package="transbeam")
def gelu(x):
    """Exact GELU: `x` times the normal distribution function of `x`.

    Args:
        x: float tensor of any shape.

    Returns:
        Same shape and dtype as `x`.

    Example:
    >>> x = keras.ops.array([-1.0, 0.0, 1.0])
    >>> keras.ops.convert_to_numpy(gelu(x)).round(4)
    array([-0.1587,  0.    ,  0.8413], dtype=float32)

    References:
        - [Hendrycks & Gimpel, 2016](https://arxiv.org/abs/1606.08415), section 2
    """
    return elementwise.gelu(x, approximate=False)


@keras.saving.register_keras_serializable(package="transbeam")
def gelu_tanh(x):
    """GELU approximated by a tanh: `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.

    Argument and returned value are those of `gelu`.

    Example:
    >>> keras.ops.convert_to_numpy(gelu_tanh(keras.ops.array([-1.0, 1.0]))).round(4)
    array([-0.1588,  0.8412], dtype=float32)

    References:
        - [Hendrycks & Gimpel, 2016](https://arxiv.org/abs/1606.08415), section 2, the
          approximation
    """
    return elementwise.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}
