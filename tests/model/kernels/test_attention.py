"""Attention in pieces gives what attention at once gives, and so do its gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.kernels.comparing import assert_same, in_graph
from transbeam.model.kernels import attention_tensorflow
from transbeam.model.kernels.attention import (
    plain_attention,
    scaled_dot_product_attention,
)
from transbeam.model.kernels.dispatch import for_phones, plain

pytestmark = tensorflow_only
SCALE = 0.3
DISTANCES = 5


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that toy sizes take several pieces, the last of which overlaps."""
    monkeypatch.setattr(attention_tensorflow, "SCORES_AT_ONCE", 200)
    monkeypatch.setattr(attention_tensorflow, "FEWEST_ROWS", 3)


class Case:
    """Random tensors, a mask that leaves each query a key, and a trained bias."""

    def __init__(self, seed, batch, length, keys, heads, groups, dtype):
        rng = np.random.default_rng(seed)
        shapes = [(length, heads), (keys, groups), (keys, groups)]
        self.inputs = [
            tf.cast(rng.normal(size=(batch, *shape, 4)), dtype) for shape in shapes
        ]
        self.worth = rng.normal(size=(batch, length, heads, 4)).astype("float32")
        self.table = tf.constant(rng.normal(size=(DISTANCES, heads)), "float32")
        forbidden = rng.random((batch, 1, 1, keys)) < 0.4
        forbidden[..., 0] = False
        self.key_bias = tf.constant(np.where(forbidden, -1e4, 0), "float32")
        self.keys = keys
        self.dtype = dtype

    def bias(self, kind):
        """`row_bias` of a kind, and what of it is trained."""
        columns = tf.range(self.keys)

        def padding(start, size):
            return self.key_bias

        def causal(start, size):
            rows = start + tf.range(size)
            later = tf.expand_dims(columns, 0) > tf.expand_dims(rows, 1)
            return tf.minimum(self.key_bias, tf.where(later, -1e4, 0.0))

        def relative(start, size, table):
            rows = start + tf.range(size)
            far = tf.abs(tf.expand_dims(columns, 0) - tf.expand_dims(rows, 1))
            bias = tf.gather(table, tf.minimum(far, DISTANCES - 1))  # (size, S, H)
            return self.key_bias + tf.transpose(bias, (2, 0, 1))

        return {
            "none": (None, []),
            "padding": (padding, []),
            "causal": (causal, []),
            "relative": (relative, [self.table]),
        }[kind]

    def check(self, kind, wrap=lambda f: f):
        row_bias, trained = self.bias(kind)

        def run(function):
            return lambda query, key, value, *trained: function(
                query, key, value, row_bias, trained, SCALE
            )

        assert_same(
            wrap(run(scaled_dot_product_attention)),
            run(plain_attention),
            [*self.inputs, *trained],
            self.worth,
            self.dtype,
        )


KINDS = ("none", "padding", "causal", "relative")
cases = st.builds(
    lambda seed, batch, length, keys, groups, share, dtype: Case(
        seed, batch, length, keys, groups * share, groups, dtype
    ),
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    length=st.integers(1, 14),
    keys=st.integers(2, 14),  # Keras warns of a softmax over one
    groups=st.integers(1, 2),
    share=st.integers(1, 3),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)


@settings(max_examples=40, deadline=None)
@given(case=cases, kind=st.sampled_from(KINDS))
@example(case=Case(2, 3, 12, 2, 4, 2, "float16"), kind="relative")  # 72 scores a bias
def test_eager(case, kind):
    case.check(kind)


@settings(max_examples=5, deadline=None)
@given(case=cases, kind=st.sampled_from(KINDS), free=st.sampled_from([0, 1, 2]))
def test_graph(case, kind, free):
    case.check(kind, lambda function: in_graph(function, free=free))


@pytest.mark.parametrize("free", others_thorough([0, 2], [2]))
def test_compiled_as_keras_fit_does(free):
    case = Case(1, 2, 11, 11, 4, 2, "float32")

    def compiled(function):
        return tf.function(in_graph(function, free=free), jit_compile=True)

    case.check("relative", compiled)


@pytest.mark.parametrize("free", others_thorough([0, 2], [2]))
def test_plain_ops_have_no_gradient_of_their_own(free):
    case = Case(1, 2, 11, 11, 4, 2, "float32")

    def traced_plainly(function):
        def plainly(*inputs):
            with plain():
                return function(*inputs)

        return in_graph(plainly, free=free)

    case.check("relative", traced_plainly)


def test_for_phones_it_is_in_one_piece():
    """Of any length, without a loop, which TFLite's fast kernels cannot be handed."""
    case = Case(1, 2, 11, 11, 4, 2, "float32")

    loops = {"If", "StatelessIf", "StatelessWhile", "While"}

    def traced_for_phones(function):
        def for_a_phone(*inputs):
            with for_phones():
                outputs = function(*inputs)
            graph = outputs.graph
            assert not {op.type for op in graph.get_operations()} & loops
            return outputs

        return in_graph(for_a_phone, free=2)

    case.check("relative", traced_for_phones)


def test_the_reference_is_keras_own_attention():
    case = Case(2, 2, 6, 9, 4, 2, "float32")
    query, key, value = case.inputs
    np.testing.assert_allclose(
        plain_attention(query, key, value, case.bias("padding")[0], (), SCALE),
        keras.ops.dot_product_attention(
            query, key, value, bias=case.key_bias, scale=SCALE
        ),
        rtol=0,
        atol=1e-6,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_row_of_padding_is_finite(dtype):
    query = tf.cast(tf.fill((1, 9, 8, 4), 5.0), dtype)
    outputs = scaled_dot_product_attention(
        query, query, query, lambda start, size: tf.fill((1, 1, 1, 9), -1e4)
    )
    assert np.isfinite(tf.cast(outputs, "float32")).all()


def test_no_tensor_of_all_scores_is_made(monkeypatch):
    length = 64
    monkeypatch.setattr(attention_tensorflow, "SCORES_AT_ONCE", 16 * length)
    monkeypatch.setattr(attention_tensorflow, "FEWEST_ROWS", 1)
    query = tf.TensorSpec((1, length, 1, 4))

    @tf.function(input_signature=[query], autograph=False)
    def gradient(query):
        with tf.GradientTape() as tape:
            tape.watch(query)
            outputs = scaled_dot_product_attention(query, query, query)
        return tape.gradient(outputs, query)

    graph = gradient.get_concrete_function().graph
    graphs = [graph, *(function.graph for function in graph._functions.values())]
    sizes = {
        output.shape.num_elements() or 0
        for graph in graphs
        for op in graph.get_operations()
        for output in op.outputs
    }
    assert 16 * length in sizes
    assert length * length not in sizes


def export(case, folder, *, free):
    """A SavedModel of causal attention, and what it must answer."""
    row_bias, _ = case.bias("causal")

    def serve(query, key, value):
        with plain():
            return scaled_dot_product_attention(query, key, value, row_bias, (), SCALE)

    specs = [
        tf.TensorSpec([None] * free + x.shape[free:].as_list()) for x in case.inputs
    ]
    archive = keras.export.ExportArchive()
    archive.add_endpoint("serve", serve, specs)
    archive.write_out(str(folder), verbose=False)
    query, key, value = case.inputs
    return plain_attention(query, key, value, row_bias, (), SCALE)


def test_runs_in_a_session_without_python(tmp_path):
    case = Case(3, 2, 11, 11, 4, 2, "float32")
    expected = export(case, tmp_path / "saved", free=2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(
            session, ["serve"], str(tmp_path / "saved")
        )
        signature = meta.signature_def["serve"]
        [output] = signature.outputs.values()
        feed = {
            signature.inputs[name].name: x.numpy()
            for name, x in zip(("query", "key", "value"), case.inputs, strict=True)
        }
        found = session.run(output.name, feed)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_runs_on_a_phone(tmp_path):
    case = Case(4, 1, 11, 11, 4, 2, "float32")
    expected = export(case, tmp_path / "saved", free=0)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(tmp_path / "saved"), signature_keys=["serve"]
    )
    interpreter = Interpreter(model_content=converter.convert())
    query, key, value = case.inputs
    answer = interpreter.get_signature_runner("serve")(
        query=query, key=key, value=value
    )
    [found] = answer.values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_rounded_table_has_a_gradient_in_pieces(dtype):
    # Keras rounds the table on its way through a layer in half precision.
    x = tf.cast(tf.random.stateless_normal((1, 16, 2, 4), (1, 2)), dtype)
    table = tf.ones((2, 16), dtype)

    def row_bias(start, size, table):
        rows = tf.expand_dims(tf.range(start, start + size), 1)
        distance = tf.abs(rows - tf.expand_dims(tf.range(16), 0))  # (size, 16)
        return tf.cast(tf.gather(table, distance, axis=1), "float32")[None]

    with tf.GradientTape() as tape:
        tape.watch(table)
        outputs = scaled_dot_product_attention(x, x, x, row_bias, (table,))
    gradient = tape.gradient(outputs, table)
    assert gradient.dtype == dtype
    assert np.isfinite(tf.cast(gradient, "float32")).all()
