"""Random numbers that depend only on a request.

A stateful generator, and TensorFlow's stateless one, produce other numbers when the
function is compiled, when the backend changes or when the request is batched with
others. Here a number is a hash of the request's seed, the token's index in the text and
its purpose, in 32-bit integer arithmetic, which is the same everywhere.
"""

from typing import Any

from keras import ops

# Purposes of random numbers: different purposes at one index need different numbers.
CHOICE, DRAFT, ACCEPTANCE, CORRECTION = range(4)

_GOLDEN = 0x9E3779B9


def random_bits(
    seeds: Any, position: Any, purpose: int, size: int | None = None
) -> Any:
    """Uniformly distributed 32-bit integers.

    Args:
        seeds: int `(B,)`, one for each row.
        position: int or int32 tensor, scalar or `(B,)`: the index of the new token.
        purpose: The purpose of the numbers, such as `CHOICE`.
        size: Numbers for each row; None for a single one.

    Returns:
        uint32 `(B, size)`, or `(B,)`.

    Example:
    >>> ops.convert_to_numpy(random_bits(ops.array([1, 2]), 0, CHOICE)).tolist()
    [3596746518, 580596747]

    References:
        - [Wellons, 2018](https://nullprogram.com/blog/2018/07/31/), "lowbias32"
    """
    position = ops.cast(ops.convert_to_tensor(position, "int32"), "uint32")
    bits = _mix(_unsigned(_GOLDEN) + ops.cast(seeds, "uint32"))
    bits = _mix(bits + position)
    bits = _mix(bits + _unsigned(purpose))
    if size is None:
        return bits
    columns = ops.cast(ops.arange(size, dtype="int32"), "uint32")
    return _mix(ops.expand_dims(bits, 1) + ops.expand_dims(_mix(columns), 0))


def random_uniform(
    seeds: Any, position: Any, purpose: int, size: int | None = None
) -> Any:
    """Uniform float32 in the open interval (0, 1); arguments as `random_bits`.

    Example:
    >>> float(random_uniform(ops.array([1]), 0, CHOICE)[0])
    0.8374328017234802
    """
    numbers = ops.cast(random_bits(seeds, position, purpose, size), "float32")
    # Near 0 all 32 bits are kept; near 1 a float32 has 24, and must not round to 1.
    return ops.minimum(numbers * 2.0**-32 + 2.0**-33, 1.0 - 2.0**-24)


def random_gumbel(seeds: Any, position: Any, purpose: int, size: int) -> Any:
    """Gumbel noise, float32 `(B, size)`; arguments as `random_bits`.

    The argmax of logits with such noise is a sample from their softmax.
    """
    # The largest noise decides, and comes from the smallest of these numbers, so these
    # need float32's full resolution near 0.
    waiting = -ops.log1p(-random_uniform(seeds, position, purpose, size))
    return -ops.log(waiting)


def _mix(bits):
    bits = ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(16)))
    bits = bits * _unsigned(0x7FEB352D)
    bits = ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(15)))
    bits = bits * _unsigned(0x846CA68B)
    return ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(16)))


def _unsigned(number):
    return ops.convert_to_tensor(number, "uint32")
