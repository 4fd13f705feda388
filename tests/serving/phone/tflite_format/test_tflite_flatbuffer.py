"""TFLite files as data: shapes that are written down, and ops that are refused."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

from tests.serving.conftest import LENGTH, TINY
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import (
    check_flatbuffer,
    list_ops,
    packed,
    unpacked,
    with_shapes,
)
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec

MASKS, WIDTH = TINY.export.tflite_masks, TINY.model.hidden_dim
REAL = 20
VARIANTS = ["float32", "dynamic_int8"]


def tensors_of(content):
    """Each signature's tensors by name, inputs, outputs and those between."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    return {
        of.signatureKey.decode(): (of, model.subgraphs[of.subgraphIndex].tensors)
        for of in model.signatureDefs
    }


def shapes_of(tensors, maps):
    """The shape, and the one that says which sizes may change, of each."""
    found = {of.name.decode(): tensors[of.tensorIndex] for of in maps}
    return {
        name: (tensor.shape.tolist(), signs(tensor)) for name, tensor in found.items()
    }


def signs(tensor):
    found = tensor.shapeSignature
    return None if found is None else np.asarray(found).tolist()


@pytest.fixture(scope="module", params=VARIANTS)
def content(request, exported):
    return (exported.tflite / f"model_{request.param}.tflite").read_bytes()


def test_shapes_are_those_of_the_longest_text_and_may_change(content, trained):
    found = tensors_of(content)
    row = ([1, LENGTH], [1, -1])
    masks, tensors = found["fill_mask"]
    assert shapes_of(tensors, masks.inputs) == {
        "token_ids": row,
        "padding_mask": row,
        "masked_positions": ([1, MASKS], None),
    }
    outputs = shapes_of(tensors, masks.outputs)["logits"]
    assert outputs[0] == [1, MASKS, trained.tokenizer.vocabulary_size]
    embed, tensors = found["embed"]
    assert shapes_of(tensors, embed.inputs) == {"token_ids": row, "padding_mask": row}
    assert shapes_of(tensors, embed.outputs)["embedding"][0] == [1, WIDTH]


def test_what_lies_between_has_them_too(content):
    """A runtime that plans its memory from the file alone plans for all of it."""
    for _, tensors in tensors_of(content).values():
        between = [tensor for tensor in tensors if signs(tensor) is not None]
        may_change = [
            (tensor.shape.tolist(), place)
            for tensor in between
            for place, sign in enumerate(signs(tensor))
            if sign < 0
        ]
        assert len(may_change) > 50
        sizes = {shape[place] for shape, place in may_change}
        assert LENGTH in sizes
        assert 1 not in sizes
        places = [np.prod(tensor.shape) for tensor in between]
        assert max(places) >= LENGTH * WIDTH


def question():
    chance = np.random.default_rng(5)
    ids = chance.integers(5, 100, REAL).astype(np.int32)
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


def test_who_does_not_resize_has_the_answers_of_a_row_that_is_filled_up(exported):
    file = str(exported.tflite / "model_float32.tflite")
    runner = Interpreter(file).get_signature_runner("embed")
    rows = {
        name: np.pad(row, (0, LENGTH - REAL))[np.newaxis]
        for name, row in question().items()
    }
    filled_up = runner(**rows)["embedding"][0]
    expected = TFLiteRunner(exported.tflite / "model_float32.tflite").ask(
        "embed", **question()
    )["embedding"]
    np.testing.assert_allclose(filled_up, expected, atol=2e-6, rtol=0)


def compiled(file, signature, inputs):
    """The first output's numbers, of the runtime that comes after the interpreter."""
    model = CompiledModel.from_file(str(file))
    number = model.get_signature_index(signature)
    names = model.get_signature_by_index(number)
    buffers = model.create_input_buffers(number)
    for name, buffer in zip(names["inputs"], buffers, strict=True):
        buffer.write(np.ascontiguousarray(inputs[name]))
    (output,) = model.create_output_buffers(number)
    model.run_by_index(number, [*buffers], [output])
    (name,) = names["outputs"]
    size = model.get_output_buffer_requirements(0, number)["buffer_size"] // 4
    return output.read(size, np.float32)


def test_the_runtime_that_compiles_a_file_gives_keras_s_answers(
    exported, trained, body
):
    """It never resizes, and takes the shapes from the file."""
    file = exported.tflite / "model_float32.tflite"
    alone = {name: row[np.newaxis] for name, row in question().items()}
    rows = {name: np.pad(r, ((0, 0), (0, LENGTH - REAL))) for name, r in alone.items()}
    expected = body(alone)["sequence_output"].numpy().mean(axis=1)
    found = compiled(file, "embed", rows)
    np.testing.assert_allclose(found.reshape(1, -1), expected, atol=2e-6, rtol=0)
    positions = {"masked_positions": np.array([[1, 4, 19, 0]], np.int32)}
    expected = trained.model(alone | positions)["logits"].numpy()
    found = compiled(file, "fill_mask", rows | positions).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=0)


def test_each_signature_has_its_own_shapes(tmp_path):
    """Also where sizes that may change stand side by side in one file."""
    rows = [ids_spec("left", 1, None), ids_spec("right", 1, None, 3)]
    endpoints = {
        "one": Endpoint(lambda left: {"sums": tf.cumsum(left, axis=1)}, rows[:1]),
        "two": Endpoint(
            lambda left, right: {"sums": left + tf.reduce_sum(right, axis=2)}, rows
        ),
    }
    content = convert(endpoints, 1, tmp_path)
    sizes = {"one": {"left": (1, 4)}, "two": {"left": (1, 9), "right": (1, 9, 3)}}
    model = TFLiteRunner(with_shapes(content, sizes))
    assert {name: model.shapes(name) for name in ("one", "two")} == sizes
    for size in (6, 9):  # and it can be resized all the same
        found = model.ask("two", left=np.arange(size), right=np.ones((size, 3)))
        assert found["sums"].tolist() == list(range(3, 3 + size))


def test_a_file_packed_again_is_the_same(content):
    assert packed(unpacked(content)) == content


def erf(tmp_path):
    spec = [tf.TensorSpec([1, 3], tf.float32, name="x")]
    concrete = tf.function(tf.math.erf, input_signature=spec).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
    converter.allow_custom_ops = True
    return converter.convert()


def test_an_op_that_is_allowed_is_not_refused(tmp_path):
    content = erf(tmp_path)
    (name,) = list_ops(content)[1]
    check_flatbuffer(content, "erf.tflite", frozenset({name}))
    for allowed in (frozenset(), frozenset({"AnotherOp"})):
        with pytest.raises(ArtifactError, match=rf"erf\.tflite: uses {name}; expected"):
            check_flatbuffer(content, "erf.tflite", allowed)


def test_variables_are_refused_whatever_is_allowed(content):
    model = unpacked(content)
    model.operatorCodes[0].builtinCode = schema.BuiltinOperator.READ_VARIABLE
    with pytest.raises(ArtifactError, match="uses READ_VARIABLE; expected"):
        check_flatbuffer(packed(model), "x", frozenset({"READ_VARIABLE"}))
