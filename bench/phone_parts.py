"""Time of the parts of BERT-base on a phone's runtime, in float32.

    python -m bench.phone_parts [--threads 2] [--rounds 5]

XNNPACK runs a whole file as one step and says nothing of its parts, so each kind of
part is a file of its own, with as many of them as the model has, one after another, on
128 tokens. What they take together is what the whole takes, or nearly.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bench.pairs import heading, row, spread  # noqa: E402
from bench.phone_files import ours  # noqa: E402
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner  # noqa: E402
from transbeam.serving.phone.conversion.tflite_converter import convert  # noqa: E402
from transbeam.serving.signatures.base.interface import Endpoint  # noqa: E402

LAYERS, WIDTH, HEADS, INSIDE, LENGTH = 12, 768, 12, 3072, 128
CALLS = 12
CHANCE = np.random.default_rng(0)

Part = Callable[[tf.Tensor], tf.Tensor]


def weight(*shape: int) -> Any:
    return tf.constant(0.03 * CHANCE.standard_normal(shape), tf.float32)


def dense(x: tf.Tensor) -> tf.Tensor:
    """Queries, keys, values, their output, and the two of the feed-forward."""
    for _ in range(LAYERS):
        total = sum(x @ weight(WIDTH, WIDTH) + weight(WIDTH) for _ in range(3))
        x = total @ weight(WIDTH, WIDTH) + weight(WIDTH)
        x = x @ weight(WIDTH, INSIDE) + weight(INSIDE)
        x = x @ weight(INSIDE, WIDTH) + weight(WIDTH)
    return x


def attention(x: tf.Tensor) -> tf.Tensor:
    """Scores, softmax and the sum of the values, with heads taken apart and joined."""
    shape = [1, LENGTH, HEADS, WIDTH // HEADS]
    for _ in range(LAYERS):
        apart = (tf.reshape(x * scale, shape) for scale in (1.0, 2.0, 3.0))
        q, k, v = (tf.transpose(each, [0, 2, 1, 3]) for each in apart)
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 8.0)
        x = tf.reshape(tf.transpose(scores @ v, [0, 2, 1, 3]), [1, LENGTH, WIDTH])
    return x


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The activation, on the inner width."""
    x = tf.concat([x] * (INSIDE // WIDTH), axis=-1)
    for _ in range(LAYERS):
        x = tf.nn.gelu(x)
    return tf.split(x, INSIDE // WIDTH, axis=-1)[0]


def norms(x: tf.Tensor) -> tf.Tensor:
    """The layer norms, and the sums before them."""
    for _ in range(2 * LAYERS + 1):
        y = x + x
        mean = tf.reduce_mean(y, -1, keepdims=True)
        variance = tf.reduce_mean((y - mean) ** 2, -1, keepdims=True)
        x = (y - mean) * tf.math.rsqrt(variance + 1e-12)
        x = x * weight(WIDTH) + weight(WIDTH)
    return x


def main() -> None:
    """Prints what the whole takes, and each kind of part."""
    parser = argparse.ArgumentParser(prog="bench.phone_parts", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = asked(Path(temporary), arguments.threads)
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(arguments.rounds + 1):
        for name, run in runs.items():
            milliseconds = median_ms(run)
            if number:
                taken[name].append(milliseconds)
    title = f"BERT-base, {LENGTH} tokens, {arguments.threads} threads"
    print(heading(title, "ms", "share"))
    whole = statistics.median(taken["the whole"])
    for name, found in taken.items():
        print(
            row(name, spread(found, ".1f"), f"{statistics.median(found) / whole:.0%}")
        )


def asked(folder: Path, threads: int) -> dict[str, Callable[[], object]]:
    """A call of the whole and of each kind of part."""
    ours("bert_base", folder)
    model = TFLiteRunner(folder / "ours float32.tflite", num_threads=threads)
    ids = np.ones((1, LENGTH), np.int32)
    inputs = {"token_ids": 1000 + ids, "padding_mask": ids}
    runs: dict[str, Callable[[], object]] = {
        "the whole": lambda: model.run("classify_ids", **inputs)
    }
    x = CHANCE.standard_normal((1, LENGTH, WIDTH)).astype(np.float32)
    spec = tf.TensorSpec(x.shape, tf.float32, name="x")
    for part in (dense, attention, gelu, norms):
        content = convert({"part": Endpoint(named(part), [spec])}, LENGTH, folder)
        alone = TFLiteRunner(content, num_threads=threads)
        runs[str(part.__doc__).strip(".").lower()] = lambda m=alone: m.run("part", x=x)
    return runs


def named(part: Part) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """The part as a signature's function."""

    def answer(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": part(x)}

    return answer


def median_ms(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        run()
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken)


if __name__ == "__main__":
    main()
