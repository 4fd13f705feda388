"""References of the fused elementwise kernels, in `keras.ops`."""

from typing import Any

from keras import ops

Three = tuple[Any, Any, Any]


def plain_adam_update(
    values: Three, gradient: Any, rates: Three, betas: tuple[float, float]
) -> Three:
    """As `adam_update`, in `keras.ops`: the reference."""
    (weight, mean, square), (rate, decay, epsilon) = values, rates
    mean = mean + (gradient - mean) * (1.0 - betas[0])
    square = square + (ops.square(gradient) - square) * (1.0 - betas[1])
    step = rate * mean / (ops.sqrt(square) + epsilon)
    return weight - weight * decay - step, mean, square


def plain_dropout(x: Any, rate: float, seed: Any) -> Any:
    """As `dropout`, in `keras.ops`: the reference."""
    size = ops.size(x)
    positions = ops.cast(ops.arange(size, dtype="int32"), "uint32") * _number(
        0x9E3779B1
    )
    bits = _hash(ops.bitwise_xor(positions, _hash(seed[0] + _hash(seed[1]))))
    kept = ops.reshape(bits >= _number(threshold(rate)), ops.shape(x))
    scaled = ops.cast(ops.cast(x, "float32") * (1.0 / (1.0 - rate)), x.dtype)
    return ops.where(kept, scaled, ops.zeros_like(x))


def threshold(rate: float) -> int:
    """Returns the smallest hash value whose element is kept."""
    return min(round(rate * 2**32), 2**32 - 1)


def _hash(x):
    """Hashes uint32 numbers; each output bit depends on each input bit."""
    x = _mix(x, 16) * _number(0x85EBCA6B)
    x = _mix(x, 13) * _number(0xC2B2AE35)
    return _mix(x, 16)


def _mix(x, shift):
    return ops.bitwise_xor(x, ops.right_shift(x, _number(shift)))


def _number(value):
    return ops.convert_to_tensor(value, "uint32")
