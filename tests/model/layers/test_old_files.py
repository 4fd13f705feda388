"""Models saved by Keras with version 0.1.0 are read."""

import json

import keras

from tests.docs import ROOT

# `config.json` of a `.keras` file: T5 with one block a side, eight wide.
SAVED = ROOT / "tests/data/old_runs/t5-0.1.0.keras.json"


def test_arguments_have_their_earlier_names_in_saved_models():
    model = keras.saving.deserialize_keras_object(json.loads(SAVED.read_text("utf-8")))
    assert model.count_params() == 2136
    ids = keras.ops.full((2, 3), 2, dtype="int32")
    outputs = model({tensor.name: ids for tensor in model.inputs})
    assert tuple(outputs["logits"].shape) == (2, 3, 11)
