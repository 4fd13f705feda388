"""Functions as the backend runs them best.

JAX compiles every operation of a test for its shapes, one after the other; the whole
function at once takes it a fraction of the time.
"""

from collections.abc import Callable

import keras

ON_JAX = keras.backend.backend() == "jax"


def compiled(function: Callable, *, jit: bool = False) -> Callable:
    """The function as the backend compiles it.

    Args:
        function: Takes tensors, and makes no variables.
        jit: Compiles with XLA on TensorFlow too.
    """
    if ON_JAX:
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=jit, autograph=False)


def compiled_on_jax(function: Callable) -> Callable:
    """The function compiled on JAX, and as it is on TensorFlow."""
    return compiled(lambda *inputs: function(*inputs)) if ON_JAX else function
