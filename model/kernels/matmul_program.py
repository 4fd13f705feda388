"""Times products of bfloat16 matrices, in bfloat16 and widened to float32.

    python model/kernels/matmul_program.py SECONDS

The measurement is a separate program, since the first product may crash the process:
some virtual machines report instructions that do not work. The program prints one JSON
object, seconds by dtype, and is killed by the system if it takes longer than SECONDS.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

# The feed-forward layer of a small Transformer on a batch of 1,024 tokens. For larger
# ones the ratio of times is the same or larger, and smaller ones hardly matter.
TOKENS, WIDTH, UNITS = 1024, 256, 1024
ROUNDS, CALLS = 10, 3


def main() -> None:
    """Prints the seconds that a layer and its gradients take in each dtype."""
    if hasattr(signal, "alarm"):  # not on Windows
        signal.alarm(int(sys.argv[1]))
    layers = {dtype: build_layer(dtype) for dtype in ("float32", "bfloat16")}
    for layer in layers.values():
        _time(layer)  # the first call traces
    # Alternating, and the minimum of each, so that other load affects both equally.
    rounds = [
        {dtype: _time(layer) for dtype, layer in layers.items()} for _ in range(ROUNDS)
    ]
    print(json.dumps({dtype: min(each[dtype] for each in rounds) for dtype in layers}))


def build_layer(
    dtype: str, tokens: int = TOKENS, width: int = WIDTH, units: int = UNITS
) -> Callable[[], Any]:
    """Builds a dense layer on bfloat16 inputs, with both gradients, as a graph.

    Args:
        dtype: The dtype of the layer's three matrix products: the output and the two
            gradients.
        tokens: Rows of the inputs.
        width: Columns of the inputs.
        units: Columns of the outputs.

    Returns:
        A `tf.function` that returns the gradients of the inputs and of the kernel.
    """
    import tensorflow as tf

    def normal(*shape: int) -> Any:
        return tf.random.stateless_normal(shape, (0, 1))

    inputs = tf.Variable(tf.cast(normal(tokens, width), "bfloat16"))
    upstream = tf.Variable(tf.cast(normal(tokens, units), "bfloat16"))
    kernel = tf.Variable(normal(width, units))
    bias = tf.Variable(normal(units))

    @tf.function(autograph=False)
    def layer() -> Any:
        with tf.GradientTape() as tape:
            # The policy `mixed_bfloat16`: the weights are float32, and cast for use.
            narrow = tf.cast(kernel, "bfloat16")
            outputs = tf.matmul(tf.cast(inputs, dtype), tf.cast(narrow, dtype))
            outputs = tf.nn.relu(tf.nn.bias_add(outputs, tf.cast(bias, dtype)))
            outputs = tf.cast(outputs, "bfloat16")
        gradients = [tf.convert_to_tensor(upstream)]
        return tape.gradient(outputs, [inputs, kernel], gradients)

    return layer


def _time(layer: Callable[[], Any]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        [gradient.numpy() for gradient in layer()]
    return (time.perf_counter() - began) / CALLS


if __name__ == "__main__":
    main()
