"""Dropout whose mask is recomputed in the backward pass instead of stored.

Random numbers from the backend's generator take longer than everything else in dropout,
and the mask must be stored until the backward pass. Here a number is a hash of the seed
and of the element's index, so the backward pass recomputes the mask, and TensorFlow
fuses hash, comparison and product to one XLA kernel.
"""

import math
from typing import Any

from transbeam.model.kernels.dispatch import is_plain, on_tensorflow
from transbeam.model.kernels.elementwise_reference import plain_dropout


def dropout(x: Any, rate: float, seed: Any) -> Any:
    """Sets a share of all elements to 0 and scales the others to keep the mean.

    Args:
        x: float, of any shape.
        rate: The share, in `(0, 1)`, with a resolution of 2^-32.
        seed: uint32 `(2,)`. The same seed gives the same mask, on every backend.

    Returns:
        Same shape and dtype as `x`.

    Raises:
        ValueError: There are 2^31 elements or more.

    Example:
    >>> from keras import ops
    >>> x = dropout(ops.ones((1000,)), 0.5, ops.array([1, 2], dtype="uint32"))
    >>> sorted(set(ops.convert_to_numpy(x).tolist()))
    [0.0, 2.0]

    References:
        - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
        - the mixing steps: MurmurHash3's finalizer, by Austin Appleby (public domain)
    """
    if None not in x.shape and math.prod(x.shape) >= 2**31:
        raise ValueError(
            f"dropout of {math.prod(x.shape):,} elements at once, expected fewer than "
            "2^31. Smaller batches have fewer, or more training.accumulation"
        )
    if on_tensorflow() and not is_plain():
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.dropout(x, rate, seed)
    return plain_dropout(x, rate, seed)
