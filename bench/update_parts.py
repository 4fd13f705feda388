"""Parts of an update that are not matrix products: ours and Keras's.

python -m bench.update_parts
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from bench.pairs import Pair, heading, in_turns
from transbeam.model.layers.dropout import Dropout
from transbeam.trainer.optimizers.adamw import AdamW

ROUNDS = 15
LAYERS = 4
SHAPES = {
    "dropout, 32 x 128 x 256": (32, 128, 256),
    "dropout, 32 x 4 x 128 x 128": (32, 4, 128, 128),
}
# Those of masked 4x256 with V 30,522, nearly.
WEIGHTS = (
    [(30_522, 256)]
    + 16 * [(256, 256)]
    + 4 * [(256, 1_024), (1_024, 256), (1_024,)]
    + 40 * [(256,)]
)


def dropout(kind: type[keras.layers.Layer], shape: tuple[int, ...]) -> Callable:
    """Both passes through some layers."""
    layers = [kind(0.1, seed=number) for number in range(LAYERS)]

    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for layer in layers:
                y = layer(y, training=True)
            total = tf.reduce_sum(y)
        return tape.gradient(total, x)

    x = tf.random.normal(shape)
    return lambda: run(x).numpy()


def update(kind: type[keras.optimizers.Optimizer]) -> Callable:
    """An update of all weights."""
    weights = [keras.Variable(tf.random.normal(shape)) for shape in WEIGHTS]
    gradients = [tf.random.normal(shape) for shape in WEIGHTS]
    optimizer = kind(1e-3, weight_decay=0.01)
    optimizer.build(weights)

    @tf.function
    def run():
        optimizer.apply(gradients, weights)
        return optimizer.iterations.value

    return lambda: run().numpy()


def main() -> None:
    """Prints the table."""
    print(heading("work", "ours", "peer", "ratio"))
    for name, shape in SHAPES.items():
        ours, theirs = (
            dropout(kind, shape) for kind in (Dropout, keras.layers.Dropout)
        )
        seconds = in_turns(ours, theirs, ROUNDS)
        print(Pair(name, "Keras", *seconds, LAYERS, "layers").as_row(), flush=True)
    ours, theirs = (update(kind) for kind in (AdamW, keras.optimizers.AdamW))
    seconds = in_turns(ours, theirs, ROUNDS)
    print(Pair("AdamW, 11.0 million weights", "Keras", *seconds, 1, "updates").as_row())


if __name__ == "__main__":
    main()
