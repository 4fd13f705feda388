"""Smaller variants of a file ask and answer as it does, in fewer bytes."""

from typing import get_args

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_quantizer import quantizer

from tests.serving.conftest import LENGTH as LONGEST
from tests.serving.phone.quantization_error import off
from transbeam.configs.schema.export import Variant
from transbeam.model.kernels.lookup import look_up
from transbeam.model.layers.masks import FORBIDDEN, FORBIDDEN_IN_INT8
from transbeam.model.layers.norms import RMSNormalization
from transbeam.model.layers.residual import Residual
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.quantization import calibration
from transbeam.serving.phone.quantization import quantizer as quantization
from transbeam.serving.phone.quantization.calibration import make_calibration
from transbeam.serving.phone.quantization.quantizer import IN_4_BITS, quantized
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import unpacked
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.task_factory import make_signature_task

VOCABULARY, WIDTH, LENGTH, CLASSES = 2000, 512, 12, 7
SMALLER = [name for name in get_args(Variant) if name != "float32"]
# Of float32's bytes.
LARGEST = {
    "float16": 0.51,
    "dynamic_int8": 0.27,
    "int8": 0.27,
    "weight_int8": 0.27,
    "weight_int4": 0.16,
    "dynamic_int4": 0.16,
}
# Of the answers' root mean square. Four bits have steps of a seventh of a row's largest
# number, here three times a usual one: off by 3/7/sqrt(12) = 12%, in three tables.
FARTHEST = {
    "float16": 0.001,
    "dynamic_int8": 0.03,
    "int8": 0.1,
    "weight_int8": 0.02,
    "weight_int4": 0.27,
    "dynamic_int4": 0.27,
}


class Weights(keras.layers.Layer):
    """A table and a product, without whose bytes hardly anything would be left."""

    def __init__(self):
        super().__init__()
        chance = np.random.default_rng(1)

        def of(*shape):
            value = self.add_weight(shape=shape)
            value.assign(chance.standard_normal(shape))
            return value

        self.table, self.wide = of(VOCABULARY, WIDTH), of(WIDTH, 2 * WIDTH)
        self.narrow = of(2 * WIDTH, CLASSES)

    def call(self, token_ids):
        hidden = keras.ops.relu(look_up(self.table, token_ids) @ self.wide)
        return hidden @ self.narrow


def asked(number, seed):
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, VOCABULARY, (number, 1, LENGTH))
    return [{"token_ids": row.astype(np.int32)} for row in rows]


@pytest.fixture(scope="module")
def float32(tmp_path_factory):
    """A file of two signatures, which share their weights."""
    weights = Weights()
    row = [ids_spec("token_ids", 1, None)]
    endpoints = {
        "each": Endpoint(lambda token_ids: {"logits": weights(token_ids)}, row),
        "first": Endpoint(
            lambda token_ids: {"logits": weights(token_ids)[:, 0]},
            row,
        ),
    }
    return convert(endpoints, LENGTH, tmp_path_factory.mktemp("converted"))


@pytest.fixture(scope="module")
def made(float32):
    """Each variant's file."""
    rows = asked(32, seed=2)
    ranges = {"each": rows, "first": rows}
    return {name: quantized(float32, name, ranges) for name in SMALLER}


def test_what_was_met_once_is_not_cut_off(tmp_path):
    """Its text comes first, and an average of ranges would have forgotten it."""
    weights = Weights()
    weights.table[0].assign(10 * weights.table[0])
    row = [ids_spec("token_ids", 1, None)]
    endpoint = Endpoint(lambda token_ids: {"logits": weights(token_ids)}, row)
    source = convert({"each": endpoint}, LENGTH, tmp_path)
    rare = {"token_ids": np.zeros((1, LENGTH), np.int32)}
    usual = [{"token_ids": of["token_ids"] % 1999 + 1} for of in asked(60, seed=2)]
    made = quantized(source, "int8", {"each": [rare, *usual]})
    assert off(source, made, rare) < 0.1


def test_norms_are_kept_out_of_eight_bits(tmp_path):
    """One that enlarges a token a thousandfold leaves the others their own numbers."""
    table, product = Weights(), keras.layers.Dense(CLASSES)
    norm = RMSNormalization(name="self_attention_norm")
    sizes = np.where(np.arange(VOCABULARY) % 5, 1.0, 1e-3)
    table.table.assign(table.table * sizes[:, np.newaxis])
    row = [ids_spec("token_ids", 1, None)]

    def answer(token_ids):
        return {"logits": product(norm(look_up(table.table, token_ids)))}

    source = convert({"each": Endpoint(answer, row)}, LENGTH, tmp_path)
    made = quantized(source, "int8", {"each": asked(32, seed=2)})
    others = {"token_ids": np.arange(1, 5 * LENGTH, 5, np.int32)[np.newaxis]}
    assert off(source, made, others) < 0.1


def test_what_goes_from_block_to_block_is_kept_out_of_eight_bits(tmp_path):
    """One large number that a norm takes out again leaves the others be."""
    table, product = Weights(), keras.layers.Dense(CLASSES)
    norm, residual = RMSNormalization(name="norm"), Residual(name="residual")
    norm.build((1, LENGTH, WIDTH))
    is_large = np.arange(WIDTH) == 0
    norm.gamma.assign(~is_large)
    added = keras.ops.convert_to_tensor(np.where(is_large, 1000, 0), "float32")
    row = [ids_spec("token_ids", 1, None)]

    def answer(token_ids):
        stream = residual(look_up(table.table, token_ids), added)
        return {"logits": product(norm(stream))}

    source = convert({"each": Endpoint(answer, row)}, LENGTH, tmp_path)
    made = quantized(source, "int8", {"each": asked(32, seed=2)})
    assert off(source, made, asked(1, seed=3)[0]) < 0.1


@pytest.mark.parametrize("variant", sorted(IN_4_BITS))
def test_tables_may_have_eight_bits_where_the_rest_has_four(tmp_path, variant):
    """Also one that scores, which stands in the file once."""
    weights, product = Weights(), keras.layers.Dense(WIDTH)
    row = [ids_spec("token_ids", 1, None)]

    def answer(token_ids):
        hidden = product(look_up(weights.table, token_ids))
        return {"logits": hidden @ keras.ops.transpose(weights.table)}

    source = convert({"each": Endpoint(answer, row)}, LENGTH, tmp_path)
    small, exact = (
        quantized(source, variant, tables=tables) for tables in ("int4", "int8")
    )
    question = asked(1, seed=3)[0]
    assert off(source, exact, question) < 0.7 * off(source, small, question)
    more = len(exact) - len(small)
    assert abs(more / (VOCABULARY * WIDTH / 2) - 1) < 0.01


def test_nothing_is_printed(float32, capsys):
    """By the quantizer, whose report would spoil what a command prints for programs."""
    quantized(float32, "dynamic_int8")
    assert capsys.readouterr() == ("", "")


def described(details):
    return {
        name: (of["dtype"], of["shape"].tolist(), of["shape_signature"].tolist())
        for name, of in details.items()
    }


def test_every_variant_is_as_small_as_its_bits(float32, made):
    sizes = {name: len(content) / len(float32) for name, content in made.items()}
    assert {name: size for name, size in sizes.items() if size > LARGEST[name]} == {}
    assert min(sizes.values()) > 0.12  # half a byte of four, and nothing is gone


@pytest.mark.parametrize("variant", SMALLER)
def test_a_variant_asks_and_answers_as_float32(float32, made, variant):
    expected, found = TFLiteRunner(float32), TFLiteRunner(made[variant])
    assert found.signatures == expected.signatures == ["each", "first"]
    for name in found.signatures:
        ours, theirs = (
            [described(runner.get_input_details()), described(outputs)]
            for runner, outputs in (
                (model._runners[name], model._runners[name].get_output_details())
                for model in (found, expected)
            )
        )
        assert ours == theirs
        assert ours[0] == {"token_ids": (np.int32, [1, LENGTH], [1, -1])}
        assert ours[1]["logits"][0] == np.float32


@pytest.mark.parametrize("variant", SMALLER)
@pytest.mark.parametrize("delegate", [True, False])
def test_a_variants_answers_are_near(float32, made, variant, delegate):
    expected = TFLiteRunner(float32, delegate=delegate)
    found = TFLiteRunner(made[variant], delegate=delegate)
    rows = asked(8, seed=3)
    for name in found.signatures:
        answers, references = (
            np.array([model.run(name, **row)["logits"] for row in rows])
            for model in (found, expected)
        )
        assert 0 < rms(answers - references) / rms(references) < FARTHEST[variant]


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


@pytest.mark.parametrize("variant", SMALLER)
def test_weights_lie_inside_the_file_and_where_the_schema_asks(made, variant):
    content = made[variant]
    assert schema.Model.ModelBufferHasIdentifier(content, 0)
    model = schema.Model.GetRootAsModel(content, 0)
    lengths = []
    for number in range(model.BuffersLength()):
        buffer = model.Buffers(number)
        assert (buffer.Offset(), buffer.Size()) == (0, 0)
        if length := buffer.DataLength():
            lengths.append(length)
            table = buffer._tab
            assert table.Vector(table.Offset(4)) % 16 == 0
    assert sum(lengths) > 0.9 * len(content)  # behind the last there is no weight


def test_what_the_quantizer_puts_behind_a_file_is_brought_inside(float32, made):
    making = quantizer.Quantizer(float32)
    recipe = quantization._recipe("dynamic_int8", [])
    making.load_quantization_recipe(recipe.get_quantization_recipe())
    raw = bytes(making.quantize().quantized_model)
    behind = [
        raw[buffer.offset : buffer.offset + buffer.size]
        for buffer in schema.ModelT.InitFromPackedBuf(raw, 0).buffers
        if buffer.offset > 1
    ]
    assert len(behind) >= 3  # or the quantizer writes otherwise now
    model = schema.ModelT.InitFromPackedBuf(made["dynamic_int8"], 0)
    inside = {
        buffer.data.tobytes()
        for buffer in model.buffers
        if buffer.size == 0 and buffer.data is not None
    }
    assert set(behind) <= inside


def test_the_same_bytes_twice(float32, made):
    ranges = {name: asked(32, seed=2) for name in ("each", "first")}
    for name, content in made.items():
        assert quantized(float32, name, ranges) == content


def vectors_of(trained):
    """One of the signatures: padding is the same in each."""
    return {"embed": make_signature_task(trained).phone_endpoints()["embed"]}


@pytest.fixture(scope="module")
def sources(trained, tmp_path_factory):
    """A model's vectors as they are traced for `int8`, and for all others."""
    endpoints, folder = vectors_of(trained), tmp_path_factory.mktemp("traced")
    return {
        in_int8: convert(endpoints, LONGEST, folder, in_int8=in_int8)
        for in_int8 in (False, True)
    }


def numbers_alone(content):
    """The constants of a file that are one float32."""
    datas = [buffer.data for buffer in unpacked(content).buffers]
    return {
        np.frombuffer(data.tobytes(), np.float32).item()
        for data in datas
        if data is not None and len(data) == 4
    }


def test_what_forbids_padding_fits_into_eight_bits_there_and_only_there(sources):
    both = {FORBIDDEN, FORBIDDEN_IN_INT8}
    assert numbers_alone(sources[False]) & both == {FORBIDDEN}
    assert numbers_alone(sources[True]) & both == {FORBIDDEN_IN_INT8}


def in_int8(trained, run_folder, source):
    ranges = make_calibration(trained, run_folder, vectors_of(trained), source)
    return quantized(source, "int8", ranges)


def moved_by_padding(content):
    """Relative error of a vector whose text is padded."""
    models = [TFLiteRunner(content, resized=resized) for resized in (True, False)]
    chance = np.random.default_rng(1)
    alone, filled_up = [], []
    for _ in range(8):
        ids = chance.integers(5, 100, chance.integers(4, 20)).astype(np.int32)
        for model, found in zip(models, (alone, filled_up), strict=True):
            answer = model.ask("embed", token_ids=ids, padding_mask=np.ones_like(ids))
            found.append(answer["embedding"])
    return rms(np.subtract(filled_up, alone)) / rms(alone)


def test_in_int8_padding_is_seen_by_nobody(trained, run_folder, sources):
    assert moved_by_padding(in_int8(trained, run_folder, sources[True])) < 1e-3


def test_ranges_found_without_padding_let_it_be_seen(
    trained, run_folder, sources, monkeypatch
):
    """So the one before could fail: of each other question padding is a part."""
    ask = calibration._question
    monkeypatch.setattr(
        calibration, "_question", lambda endpoint, row, _: ask(endpoint, row, None)
    )
    assert moved_by_padding(in_int8(trained, run_folder, sources[True])) > 0.3


def test_a_variant_that_is_none(float32):
    with pytest.raises(ValueError, match="int7: not a variant"):
        quantized(float32, "int7")
