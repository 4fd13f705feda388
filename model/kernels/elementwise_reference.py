"""References of the elementwise operations in `keras.ops`."""

from typing import Any

from keras import ops

Three = tuple[Any, Any, Any]


def plain_gelu(x: Any, approximate: bool = False) -> Any:
    """Reference implementation of `gelu` in `keras.ops`."""
    wide = ops.cast(x, "float32")
    return ops.cast(ops.gelu(wide, approximate=approximate), x.dtype)


def plain_layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Reference implementation of `layer_normalization` in `keras.ops`."""
    wide = ops.cast(x, "float32")
    centred = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    normalised = centred * ops.rsqrt(variance + epsilon)
    gamma, beta = ops.cast(gamma, "float32"), ops.cast(beta, "float32")
    return ops.cast(normalised * gamma + beta, x.dtype)


def plain_dropout(x: Any, rate: float, seed: Any) -> Any:
    """Reference implementation of `dropout` in `keras.ops`."""
    size = ops.size(x)
    indices = ops.cast(ops.arange(size, dtype="int32"), "uint32") * _number(0x9E3779B1)
    bits = _hash(ops.bitwise_xor(indices, _hash(seed[0] + _hash(seed[1]))))
    kept = ops.reshape(bits >= _number(threshold(rate)), ops.shape(x))
    scaled = ops.cast(ops.cast(x, "float32") * (1.0 / (1.0 - rate)), x.dtype)
    return ops.where(kept, scaled, ops.zeros_like(x))


def threshold(rate: float) -> int:
    """Returns the smallest hash value at which dropout keeps an element."""
    return min(round(rate * 2**32), 2**32 - 1)


def plain_adam_update(
    values: Three, gradient: Any, rates: Three, betas: tuple[float, float]
) -> Three:
    """Reference implementation of `adam_update` in `keras.ops`."""
    (weight, mean, square), (rate, decay, epsilon) = values, rates
    mean = mean + (gradient - mean) * (1.0 - betas[0])
    square = square + (ops.square(gradient) - square) * (1.0 - betas[1])
    step = rate * mean / (ops.sqrt(square) + epsilon)
    return weight - weight * decay - step, mean, square


def _hash(x):
    """Hashes uint32 numbers; each output bit depends on each input bit."""
    x = _mix(x, 16) * _number(0x85EBCA6B)
    x = _mix(x, 13) * _number(0xC2B2AE35)
    return _mix(x, 16)


def _mix(x, shift):
    return ops.bitwise_xor(x, ops.right_shift(x, _number(shift)))


def _number(value):
    return ops.convert_to_tensor(value, "uint32")
