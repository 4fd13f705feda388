"""Feed-forward layers whose numbers reach too far for eight bits of one range."""

import keras
import numpy as np
import pytest

from tests.serving.phone.quantization_error import off
from transbeam.model.kernels.lookup import look_up
from transbeam.model.layers.feedforward import FeedForward
from transbeam.model.layers.norms import RMSNormalization
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.quantization import quantizer as quantization
from transbeam.serving.phone.quantization.outliers import coarse_layers
from transbeam.serving.phone.quantization.quantizer import quantized
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec

VOCABULARY, WIDTH, LENGTH = 50, 32, 8


def asked(number, seed):
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, VOCABULARY, (number, 1, LENGTH))
    return [{"token_ids": row.astype(np.int32)} for row in rows]


QUESTIONS = {"each": asked(16, seed=1)}


def converted(folder, largest):
    """A feed-forward layer that gives each token this number first; a norm drops it."""
    chance = np.random.default_rng(0)
    table = chance.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
    layer = FeedForward(WIDTH, 2 * WIDTH, activation="gelu", name="feedforward")
    norm, product = RMSNormalization(name="norm"), keras.layers.Dense(7)
    layer.build((1, LENGTH, WIDTH))
    norm.build((1, LENGTH, WIDTH))
    is_first = np.arange(WIDTH) == 0
    for weight in layer.weights:
        if weight.name == "kernel":
            weight.assign(chance.standard_normal(weight.shape))
    last = layer.weights[-1]
    assert last.name == "bias"
    last.assign(np.where(is_first, largest, 0.0))
    norm.gamma.assign(~is_first)
    row = [ids_spec("token_ids", 1, None)]

    def answer(token_ids):
        return {"logits": product(norm(layer(look_up(table, token_ids))))}

    return convert({"each": Endpoint(answer, row)}, LENGTH, folder)


@pytest.mark.parametrize(("largest", "number"), [(0.0, 0), (10_000.0, 1)])
def test_a_layer_is_coarse_by_its_largest_number(tmp_path, largest, number):
    found = coarse_layers(converted(tmp_path, largest), QUESTIONS)
    assert len(found) == number
    assert all(path.startswith("feedforward") for path in found)


def test_what_is_allowed_decides(tmp_path):
    """Without outliers a normal number's range is some eight times its size: 0.9%."""
    content = converted(tmp_path, 0.0)
    assert len(coarse_layers(content, QUESTIONS, most=0.003)) == 1
    assert coarse_layers(content, QUESTIONS, most=0.05) == []


def test_signatures_whose_layers_have_one_name_are_told_apart(tmp_path):
    """A tensor's number counts from 0 in each of them."""

    def endpoint(width, largest):
        layer = FeedForward(width, width, name="feedforward")
        layer.build((1, LENGTH, width))
        layer.weights[-1].assign(np.where(np.arange(width), 0.0, largest))

        def answer(token_ids):
            one = keras.ops.cast(token_ids, "float32")[..., None]
            return {"sums": keras.ops.sum(layer(keras.ops.tile(one, width)), axis=-1)}

        return Endpoint(answer, [ids_spec("token_ids", 1, LENGTH)])

    endpoints = {"plain": endpoint(8, 0.0), "large": endpoint(16, 10_000.0)}
    content = convert(endpoints, LENGTH, tmp_path)
    asked = dict.fromkeys(endpoints, QUESTIONS["each"])
    assert len(coarse_layers(content, asked)) == 1


def test_such_a_layer_has_a_range_for_each_token(tmp_path, monkeypatch):
    """And weights of eight bits all the same."""
    source = converted(tmp_path, 10_000.0)
    question = asked(1, seed=2)[0]
    made = quantized(source, "int8", QUESTIONS)
    assert off(source, made, question) < 0.03
    monkeypatch.setattr(quantization, "coarse_layers", lambda *_: [])
    fixed = quantized(source, "int8", QUESTIONS)
    assert off(source, fixed, question) > 0.1
    assert len(made) < 0.55 * len(source)
