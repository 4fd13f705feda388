"""Predictions of every layer, and contributions, against the model's own logits."""

import keras
import numpy as np
import pytest

from tests.serving.studio.inspected_texts import inspect_text
from transbeam.configs.base.errors import ConfigError
from transbeam.serving.studio.contributions import explain_prediction
from transbeam.serving.studio.layer_predictions import predict_by_layer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", ["masked", "causal", "seq2seq"])
def test_the_last_layer_predicts_what_the_model_does(kind, folder):
    model, inspection = inspect_text(kind, folder)
    found = predict_by_layer(model, inspection)
    length = len(inspection.rows[found["row"]].tokens)
    inputs = dict(inspection.inputs)
    if kind == "masked":
        inputs["masked_positions"] = np.arange(length)[None]
    logits = keras.ops.convert_to_numpy(model.model(inputs)["logits"])[0]
    expected = np.sort(softmax(logits), axis=-1)[:, :-6:-1]
    np.testing.assert_allclose(found["probabilities"][-1], expected, atol=1e-4)
    assert found["row"] == (1 if kind == "seq2seq" else 0)
    layers = model.model.get_config()["layers"]
    blocks = [x["name"] for x in layers if "_layer_" in x["name"]]
    side = "encoder" if kind == "masked" else "decoder"
    assert found["layers"][1:] == [x for x in blocks if x.startswith(side)]
    piece = found["pieces"][str(found["ids"][-1][0][0])]
    assert piece == model.describer.pieces([found["ids"][-1][0][0]]).popitem()[1]


def test_contributions_add_up(folder):
    model, inspection = inspect_text("gpt2_small", folder)
    logits = keras.ops.convert_to_numpy(model.model(inspection.inputs)["logits"])[0, 2]
    first, second = np.argsort(-logits)[:2].tolist()
    found = explain_prediction(model, inspection, 2)
    assert (found["token"]["id"], found["against"]["id"]) == (first, second)
    assert found["token"]["probability"] == pytest.approx(
        softmax(logits)[first], abs=1e-5
    )
    parts = sum(part["contribution"] for part in found["parts"])
    assert parts == pytest.approx(found["difference"], abs=1e-3)
    assert found["difference"] == pytest.approx(
        logits[first] - logits[second], abs=1e-5
    )
    heads = {part["head"] for part in found["parts"] if part["head"] is not None}
    assert heads == set(range(inspection.groups[0].maps[0].shape[0]))
    other = explain_prediction(model, inspection, 2, token=second)
    assert other["against"]["id"] == first
    assert other["difference"] == pytest.approx(-found["difference"], abs=1e-3)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"position": 99}, "the text has"),
        ({"position": 1, "token": 10**6}, "token"),
        ({"position": 1, "token": 5, "against": 5}, "the same"),
    ],
)
def test_choices_that_are_not_there(folder, choice, words):
    model, inspection = inspect_text("gpt2_small", folder)
    with pytest.raises(ConfigError, match=words):
        explain_prediction(model, inspection, **choice)
