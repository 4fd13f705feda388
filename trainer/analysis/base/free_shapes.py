"""Functions that are traced once for batches of all sizes."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def trace_free(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Compiles a function to a graph whose inputs may have any sizes.

    Args:
        function: A function of tensors, or of structures of tensors.
        arguments: Arguments of the function, for structures, ranks and dtypes.

    Example:
    >>> import numpy as np
    >>> double = trace_free(lambda x: 2 * x, np.ones(3))
    >>> double(np.ones(5)).shape, double.experimental_get_tracing_count()
    (TensorShape([5]), 1)
    """
    signature = tf.nest.map_structure(
        lambda x: tf.TensorSpec((None,) * x.ndim, x.dtype), arguments
    )
    return tf.function(function, input_signature=signature, autograph=False)
