"""Files in 4 bits whose weights are rounded by what goes into them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from transbeam.configs.cli.console import Console
from transbeam.model.kernels.lookup import look_up
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.quantization import int4_weights as rounding
from transbeam.serving.phone.quantization.gptq import gptq, round_rows
from transbeam.serving.phone.quantization.int4_weights import round_weights
from transbeam.serving.phone.quantization.quantizer import IN_4_BITS, quantized
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import packed, unpacked
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec

VOCABULARY, WIDTH, LENGTH = 500, 64, 12
CONSOLE = Console(quiet=True)
FEW = 6  # numbers of which a row of the table is made


def normal(*shape, seed):
    value = np.random.default_rng(seed).standard_normal(shape)
    return value.astype(np.float32)


TABLE = normal(VOCABULARY, FEW, seed=0) @ normal(FEW, WIDTH, seed=1)
FIRST, SECOND = normal(WIDTH, 33, seed=2), normal(WIDTH, 21, seed=3)
LAST = normal(33, WIDTH, seed=4)


def asked(number, seed):
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, VOCABULARY, (number, 1, LENGTH))
    return [{"token_ids": row.astype(np.int32)} for row in rows]


QUESTIONS = {"each": asked(20, seed=5), "first": asked(30, seed=6)}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two signatures: products of one input, of another, and with the table itself."""
    table, first, second, last = map(
        keras.ops.convert_to_tensor, (TABLE, FIRST, SECOND, LAST)
    )

    def each(token_ids):
        vectors = look_up(table, token_ids)
        hidden = keras.ops.relu(vectors @ first)
        logits = (hidden @ last) @ keras.ops.transpose(table)
        return {"logits": logits, "others": vectors @ second}

    def of_first(token_ids):
        vectors = look_up(table, token_ids)[:, :1]
        return {"hidden": keras.ops.relu(vectors @ first)}

    row = [ids_spec("token_ids", 1, None)]
    endpoints = {"each": Endpoint(each, row), "first": Endpoint(of_first, row)}
    return convert(endpoints, LENGTH, tmp_path_factory.mktemp("converted"))


@pytest.fixture(scope="module")
def rounded(source):
    return round_weights(source, QUESTIONS, CONSOLE)


def vectors_of(question):
    return TABLE[question["token_ids"][0]]


def mean_of_products(rows):
    rows = rows.astype(np.float64)
    return rows.T @ rows / len(rows)


def of_shape(rounded, shape):
    """Of weights, which are told apart by it."""
    (found,) = (of for of in rounded.values() if of.numbers.shape == shape)
    return found


def test_products_are_rounded_by_all_that_goes_into_them(rounded):
    every = [vectors_of(question) for question in QUESTIONS["each"]]
    begins = [vectors_of(question)[:1] for question in QUESTIONS["first"]]
    hidden = np.maximum(np.concatenate(every) @ FIRST, 0)
    for weights, inputs in (
        (FIRST, np.concatenate(every + begins)),
        (SECOND, np.concatenate(every)),
        (LAST, hidden),
    ):
        numbers, scales = gptq(weights.T, mean_of_products(inputs))
        found = of_shape(rounded, numbers.shape)
        # Moments are kept in float32, so a weight in the middle may go either way, and
        # what a row reaches with it.
        np.testing.assert_allclose(found.scales, scales, rtol=2e-3)
        assert (found.numbers == numbers).mean() > 0.99


def test_a_table_is_rounded_for_itself(rounded):
    """It is multiplied with, too, but a row that is looked up is nobody's sum."""
    assert len(rounded) == 4
    numbers, scales = round_rows(TABLE)
    found = of_shape(rounded, TABLE.shape)
    np.testing.assert_array_equal(found.numbers, numbers)
    np.testing.assert_array_equal(found.scales, scales)


def test_products_of_the_same_inputs_are_rounded_at_once(source, monkeypatch):
    shapes = []

    def seen(weights, moments):
        shapes.append(weights.shape)
        return gptq(weights, moments)

    monkeypatch.setattr(rounding, "gptq", seen)
    questions = {"each": QUESTIONS["each"], "first": []}
    round_weights(source, questions, CONSOLE)
    assert sorted(shapes) == [(21, WIDTH), (33, WIDTH), (WIDTH, 33)]
    shapes.clear()
    alike = unpacked(source)
    del alike.signatureDefs[1], alike.subgraphs[1]
    round_weights(packed(alike), questions, CONSOLE)
    assert sorted(shapes) == [(33 + 21, WIDTH), (WIDTH, 33)]


@pytest.mark.parametrize("delegate", [True, False])
@pytest.mark.parametrize("variant", sorted(IN_4_BITS))
def test_answers_are_nearer_than_those_of_nearest_steps(
    source, rounded, variant, delegate
):
    """With tables in 8 bits, which are far nearer than products in 4."""
    made = quantized(source, variant, tables="int8", rounded=rounded)
    plain = quantized(source, variant, tables="int8")
    assert len(made) == len(plain)
    models = [
        TFLiteRunner(content, delegate=delegate) for content in (source, made, plain)
    ]
    for name in ("others", "logits"):
        expected, ours, theirs = (
            np.array([model.run("each", **of)[name] for of in asked(20, seed=7)])
            for model in models
        )
        assert np.linalg.norm(ours - expected) < 0.5 * np.linalg.norm(theirs - expected)


@pytest.mark.parametrize("variant", sorted(IN_4_BITS))
def test_a_file_holds_what_was_rounded(source, rounded, variant):
    model = unpacked(quantized(source, variant, rounded=rounded))
    held = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.type == schema.TensorType.INT4:
                held[tuple(tensor.shape)] = (
                    model.buffers[tensor.buffer].data,
                    tensor.quantization.scale,
                )
    assert len(held) == len(rounded) == 4
    for expected in rounded.values():
        data, scales = held[expected.numbers.shape]
        halves = np.stack([data & 0xF, data >> 4], axis=1).reshape(-1)
        numbers = halves[: expected.numbers.size].astype(np.int8)
        numbers = np.where(numbers > 7, numbers - 16, numbers)
        shape = expected.numbers.shape
        np.testing.assert_array_equal(numbers.reshape(shape), expected.numbers)
        np.testing.assert_array_equal(scales, expected.scales)


def test_another_file_of_the_same_weights(source, rounded, tmp_path):
    """Whatever it is asked, and however the signatures are called."""
    first = keras.ops.convert_to_tensor(FIRST)

    def answer(vectors):
        return {"sums": keras.ops.tanh(vectors) @ first}

    spec = [tf.TensorSpec([1, WIDTH], tf.float32, name="vectors")]
    other = convert({"sums": Endpoint(answer, spec)}, LENGTH, tmp_path)
    model = unpacked(quantized(other, "dynamic_int4", rounded=rounded))
    (data,) = (
        model.buffers[tensor.buffer].data
        for tensor in model.subgraphs[0].tensors
        if tensor.type == schema.TensorType.INT4
    )
    expected = rounding._in_4_bits(of_shape(rounded, FIRST.T.shape).numbers)
    np.testing.assert_array_equal(data, expected)


def test_an_odd_number_of_weights_fills_up_the_last_byte():
    numbers = np.array([[1, -1, 7], [-7, 0, 2], [3, -3, 5]], np.int8)
    packed = rounding._in_4_bits(numbers)
    assert packed.tolist() == [0xF1, 0x97, 0x20, 0xD3, 0x05]
