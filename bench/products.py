"""The matrix products of one token of GPT-2 (124 million weights), and nothing else.

    python -m bench.products --torch-python PATH

What is left of a token's time when a library does everything else for free: TensorFlow
beside PyTorch, in turns.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from bench.answering import Answering
from bench.pairs import Pair, heading

SIZES = ((768, 2304), (768, 768), (768, 3072), (3072, 768))
LAYERS, VOCABULARY = 12, 50_257
PEER = Path(__file__).parent / "peers" / "torch_products.py"
CALLS = 10


def main() -> None:
    """Prints a table: a row for each dtype and batch."""
    parser = argparse.ArgumentParser(prog="bench.products", description=__doc__)
    parser.add_argument("--torch-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(heading("work", "TensorFlow", "peer", "ratio"))
    for dtype in ("float32", "bfloat16"):
        peer = Answering([arguments.torch_python, PEER, dtype])
        multiply = multiplier(dtype)
        for batch in (1, 8):
            x = tf.cast(tf.random.normal((batch, 768)), dtype)
            for _ in range(3):  # the first traces
                multiply(x).numpy()
            mine, theirs = [], []
            for number in range(arguments.rounds + 1):
                taken = seconds(multiply, x)
                their = peer.seconds(batch, CALLS)
                if number:  # the first warms up
                    mine.append(taken / CALLS)
                    theirs.append(their / CALLS)
            work = f"products of a token, batch {batch}, {dtype}"
            print(Pair(work, "PyTorch", mine, theirs, batch, "tokens").as_row())


def multiplier(dtype: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """A graph of all products, each with its bias."""

    def weight(*shape: int) -> tf.Variable:
        return tf.Variable(tf.cast(tf.random.normal(shape, stddev=0.02), dtype))

    layers = [
        [(weight(*size), weight(size[1])) for size in SIZES] for _ in range(LAYERS)
    ]
    table = weight(VOCABULARY, 768)

    @tf.function(autograph=False)
    def multiply(x: tf.Tensor) -> tf.Tensor:
        for layer in layers:
            for kernel, bias in layer:
                rows = x[:, : kernel.shape[0]]
                x = tf.nn.bias_add(tf.matmul(rows, kernel), bias)
        return tf.matmul(x, table, transpose_b=True)

    return multiply


def seconds(multiply: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> float:
    """Measures the time of some calls, to the end of the last."""
    began = time.perf_counter()
    for _ in range(CALLS):
        multiply(x).numpy()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
