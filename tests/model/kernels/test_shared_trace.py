"""Layers alike are traced once, and each answers with its own weights."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels.dispatch import plain
from transbeam.model.kernels.shared_trace import share_trace

pytestmark = tensorflow_only

X = np.arange(6, dtype="float32").reshape(2, 3)


def dense(**options) -> keras.layers.Dense:
    layer = keras.layers.Dense(3, bias_initializer="random_normal", **options)
    layer.build((None, 3))
    return layer


def chain(layers, calls: list):
    """One layer after another; `calls` counts how often Python runs one."""

    def call(layer, x):
        calls.append(layer)
        return layer(x)

    def run(x):
        for step in share_trace(layers, call):
            x = step(x)
        return x

    return run


def one_after_another(layers) -> np.ndarray:
    x = X
    for layer in layers:
        x = layer(x)
    return ops.convert_to_numpy(x)


def test_one_trace_and_the_weights_of_each():
    layers, calls = [dense() for _ in range(4)], []
    traced = tf.function(chain(layers, calls), autograph=False)
    np.testing.assert_allclose(traced(X), one_after_another(layers), rtol=1e-6)
    assert calls == layers[:1]


def test_variables_that_wait_for_a_value_elsewhere_are_left_alone():
    with keras.StatelessScope(initialize_variables=False):
        waiting = keras.Variable("ones", (2,))
    layers, calls = [dense() for _ in range(2)], []
    tf.function(chain(layers, calls), autograph=False)(X)
    assert calls == layers[:1]  # a variable made in a trace would need another
    with keras.StatelessScope():
        pass
    np.testing.assert_array_equal(waiting, [1, 1])


def test_new_weights_are_seen():
    layers, calls = [dense() for _ in range(2)], []
    traced = tf.function(chain(layers, calls), autograph=False)
    traced(X)
    layers[1].set_weights([2 * w for w in layers[1].get_weights()])
    np.testing.assert_allclose(traced(X), one_after_another(layers), rtol=1e-6)


def with_lora(alpha: float) -> keras.layers.Dense:
    layer = dense()
    layer.enable_lora(2, lora_alpha=alpha)
    layer.lora_kernel_b.assign(np.ones((2, 3)))
    return layer


def in_int8() -> keras.layers.Dense:
    layer = dense()
    layer.quantize("int8")
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: [dense(), dense(activation="relu")],
        lambda: [dense(), dense(use_bias=False)],
        lambda: [dense(), dense(dtype="bfloat16")],
        lambda: [with_lora(1.0), with_lora(4.0)],
        lambda: [dense(), in_int8()],
    ],
    ids=["activation", "bias", "dtype", "lora_alpha", "int8"],
)
def test_layers_that_differ_have_traces_of_their_own(make):
    layers, calls = make(), []
    traced = tf.function(chain(layers, calls), autograph=False)
    answer = tf.cast(traced(X), "float32")
    expected = one_after_another(layers).astype("float32")
    # A sum in bfloat16 may be rounded elsewhere in a graph.
    rtol = 1e-2 if layers[1].compute_dtype == "bfloat16" else 1e-6
    np.testing.assert_allclose(answer, expected, rtol=rtol, atol=rtol)
    assert calls == layers


def test_substituted_weights_reach_the_function():
    layers = [dense() for _ in range(2)]

    @tf.function(autograph=False)
    def run(x):
        with keras.StatelessScope() as scope:
            scope.add_update((layers[1].kernel, tf.zeros((3, 3))))
            return chain(layers, [])(x)

    expected = np.tile(layers[1].get_weights()[1], (2, 1))
    np.testing.assert_allclose(run(X), expected, rtol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_a_loop_and_with_gradients(jit_compile):
    layers = [dense() for _ in range(3)]

    def total(run):
        def repeated(x):
            _, x = tf.while_loop(
                lambda n, _: n < 2,
                lambda n, x: (n + 1, tf.tanh(run(x))),
                (0, x),
                maximum_iterations=2,
            )
            return tf.reduce_sum(x)

        @tf.function(autograph=False, jit_compile=jit_compile)
        def value_and_gradients(x):
            weights = [v.value for layer in layers for v in layer.variables]
            with tf.GradientTape() as tape:
                result = repeated(x)
            return result, tape.gradient(result, weights)

        return tf.nest.flatten(value_and_gradients(tf.constant(X)))

    def alone(x):
        for layer in layers:
            x = layer(x)
        return x

    for ours, plainly in zip(total(chain(layers, [])), total(alone), strict=True):
        np.testing.assert_allclose(ours, plainly, rtol=1e-5, atol=1e-6)


def test_a_saved_model_keeps_what_was_shared(tmp_path):
    module = tf.Module()
    layers = [dense() for _ in range(3)]
    module.weights = [v.value for layer in layers for v in layer.variables]
    module.run = tf.function(
        chain(layers, []), input_signature=[tf.TensorSpec((2, 3))], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path))
    expected = one_after_another(layers)
    del module, layers
    gc.collect()
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.run(X), expected, rtol=1e-6)


def test_outside_of_graphs_and_in_plain_ones_nothing_is_shared():
    layers, calls = [dense() for _ in range(3)], []
    np.testing.assert_allclose(chain(layers, calls)(X), one_after_another(layers))
    assert calls == layers
    calls.clear()
    with plain():
        concrete = tf.function(chain(layers, calls)).get_concrete_function(X)
    assert calls == layers
    assert not concrete.graph.as_graph_def().library.function
