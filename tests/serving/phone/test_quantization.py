"""Variants of one file: as small as they say, near it, and made for phones."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

from configs.errors import ArtifactError
from serving.forms import PhoneModel
from serving.phone.flatbuffer import check_flatbuffer, ops_of
from serving.phone.quantization import quantized
from serving.tasks.interface import Endpoint, ids_spec
from serving.tflite import convert

PIECES, WIDTH, LENGTH = 600, 64, 24
# Of float32, where weights are most of a file.
SHARES = {
    "float16": 0.51,
    "dynamic_int8": 0.27,
    "int8": 0.28,
    "weight_int8": 0.27,
    "weight_int4": 0.16,
    "dynamic_int4": 0.16,
}
# The largest difference of an answer, whose own are about 1.
NEAR = {
    "float16": 2e-3,
    "dynamic_int8": 0.05,
    "int8": 0.2,
    "weight_int8": 0.03,
    "weight_int4": 0.4,
    "dynamic_int4": 0.4,
}


def answer(token_ids, padding_mask):
    """A table, two products and a masked mean."""
    from model.kernels.lookup import look_up

    weights = tf.cast(tf.expand_dims(padding_mask, 2), tf.float32)
    x = tf.nn.gelu(tf.matmul(look_up(TABLE, token_ids), FIRST), approximate=False)
    x = tf.matmul(x, SECOND)
    return {"score": tf.reduce_sum(x * weights, 1) / tf.reduce_sum(weights, 1)}


chance = np.random.default_rng(0)
TABLE = tf.Variable(chance.standard_normal((PIECES, WIDTH)).astype("f4"))
FIRST = tf.Variable(
    chance.standard_normal((WIDTH, 4 * WIDTH)).astype("f4") / WIDTH**0.5
)
SECOND = tf.Variable(chance.standard_normal((4 * WIDTH, WIDTH)).astype("f4") / 16)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    specs = [ids_spec(name, 1, None) for name in ("token_ids", "padding_mask")]
    folder = tmp_path_factory.mktemp("converted")
    return convert({"ask": Endpoint(answer, specs)}, LENGTH, folder)


def questions(number, length=None):
    chance = np.random.default_rng(1)
    for _ in range(number):
        size = length or int(chance.integers(2, LENGTH + 1))
        ids = chance.integers(0, PIECES, (1, size)).astype(np.int32)
        yield {"token_ids": ids, "padding_mask": np.ones_like(ids)}


@pytest.fixture(scope="module")
def variants(content):
    calibration = {"ask": list(questions(32))}
    return {name: quantized(content, name, calibration) for name in SHARES}


@pytest.mark.parametrize("variant", SHARES)
def test_size(content, variants, variant):
    assert len(variants[variant]) < SHARES[variant] * len(content)


@pytest.mark.parametrize("variant", SHARES)
@pytest.mark.parametrize("delegate", [True, False])
def test_answers_are_near(content, variants, variant, delegate):
    exact = PhoneModel(content)
    model = PhoneModel(variants[variant], delegate=delegate)
    for question in questions(4):
        found = model.run("ask", **question)["score"]
        expected = exact.run("ask", **question)["score"]
        assert found.dtype == np.float32
        assert 0 < np.abs(found - expected).max() < NEAR[variant]


def test_float32_is_the_function(content):
    for delegate in (True, False):
        model = PhoneModel(content, delegate=delegate)
        for question in questions(4):
            expected = answer(**question)["score"].numpy()
            found = model.run("ask", **question)["score"]
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("variant", SHARES)
def test_weights_are_inside_and_aligned(variants, variant):
    """Behind the flatbuffer older runtimes do not look."""
    model = schema.Model.GetRootAsModel(variants[variant], 0)
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    assert {buffer.Offset() for buffer in buffers} == {0}
    start = np.frombuffer(variants[variant], np.uint8).__array_interface__["data"][0]
    places = [
        buffer.DataAsNumpy().__array_interface__["data"][0] - start
        for buffer in buffers
        if buffer.DataLength() > 16
    ]
    assert len(places) >= 3
    assert {place % 16 for place in places} == {0}


def test_the_same_bytes_each_time(content, variants):
    assert quantized(content, "dynamic_int8") == variants["dynamic_int8"]


def test_a_variant_that_is_none(content):
    with pytest.raises(ValueError, match="int9: not a variant"):
        quantized(content, "int9")


def test_shapes_are_those_of_the_longest_text(content):
    runner = Interpreter(model_content=content).get_signature_runner("ask")
    for detail in runner.get_input_details().values():
        assert detail["shape"].tolist() == [1, LENGTH]
        assert detail["shape_signature"].tolist() == [1, -1]
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    shapes = {tuple(tensor.shape) for tensor in model.subgraphs[0].tensors}
    assert (1, LENGTH, WIDTH) in shapes
    assert (1, 1, WIDTH) not in shapes


@pytest.mark.parametrize("variant", ["dynamic_int8", "weight_int4"])
def test_the_newer_interface_runs_it(content, variants, variant):
    """With the shapes that the file has, for it does not resize by itself."""
    [question] = questions(1, LENGTH)
    for file, near in ((content, 1e-5), (variants[variant], NEAR[variant])):
        model = CompiledModel.from_buffer(file)
        inputs = {
            name: model.create_input_buffer_by_name("ask", name) for name in question
        }
        for name, buffer in inputs.items():
            buffer.write(question[name])
        outputs = {"score": model.create_output_buffer_by_name("ask", "score")}
        model.run_by_name("ask", inputs, outputs)
        found = outputs["score"].read(WIDTH, np.float32)
        expected = answer(**question)["score"].numpy()[0]
        np.testing.assert_allclose(found, expected, atol=near)


def test_ops_that_are_allowed(content):
    builtin, custom = ops_of(content)
    assert "EMBEDDING_LOOKUP" in builtin
    assert not custom
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [
            tf.function(
                lambda x: tf.math.erf(x), input_signature=[tf.TensorSpec([3])]
            ).get_concrete_function()
        ],
        tf.Module(),
    )
    converter.allow_custom_ops = True
    strange = converter.convert()
    with pytest.raises(ArtifactError, match="uses Erf"):
        check_flatbuffer(strange, "a file")
    check_flatbuffer(strange, "a file", frozenset({"Erf"}))
