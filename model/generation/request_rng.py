"""Random numbers that depend on a request and on nothing else.

A generator with a state, or TensorFlow's stateless one, gives other numbers when the
function is compiled, when the backend changes or when the request shares its batch
with others. Here a number is a hash of the request's seed, the place of the token in
the text and what it is for, in whole numbers of 32 bits, which are the same everywhere.
"""

from typing import Any

from keras import ops

# What a number is for; two purposes at one place must not share one.
CHOICE, DRAFT, ACCEPTANCE, CORRECTION = range(4)

_GOLDEN = 0x9E3779B9


def random_bits(
    seeds: Any, position: Any, purpose: int, size: int | None = None
) -> Any:
    """Evenly distributed numbers of 32 bits.

    Args:
        seeds: int `(B,)`, one for each row.
        position: int or int32 tensor, scalar or `(B,)`: which new token of the text.
        purpose: What the numbers are for, such as `CHOICE`.
        size: How many numbers for each row; None for a single one.

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
    """float32 between 0 and 1, both excluded; arguments as `random_bits`.

    Example:
    >>> float(random_uniform(ops.array([1]), 0, CHOICE)[0])
    0.8374328017234802
    """
    numbers = ops.cast(random_bits(seeds, position, purpose, size), "float32")
    # Near 0 all 32 bits count; near 1 a float32 has 24, and must not become 1.
    return ops.minimum(numbers * 2.0**-32 + 2.0**-33, 1.0 - 2.0**-24)


def random_gumbel(seeds: Any, position: Any, purpose: int, size: int) -> Any:
    """Gumbel noise, float32 `(B, size)`; arguments as `random_bits`.

    The index of the highest of scores with such noise is a draw from their softmax.
    """
    # -log of a number that is as fine near 0 as float32 allows, for the highest noise
    # decides, and it comes from the lowest of these.
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
