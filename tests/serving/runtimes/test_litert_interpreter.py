"""Wrong inputs for a TFLite file give clear errors, never those of NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.conftest import LENGTH, TINY
from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.signatures.base.interface import Endpoint

MASKS = TINY.export.tflite_masks


@pytest.fixture(scope="module", params=[True, False], ids=["resized", "filled up"])
def model(exported, request):
    return TFLiteRunner(exported.tflite / "model_float32.tflite", resized=request.param)


def row(length):
    ids = np.full(length, 7, np.int32)
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


def test_a_signature_that_is_not_there(model):
    match = r"model_float32\.tflite: there is no signature classify_ids; it has embed, "
    match += r"fill_mask\. Use one of these"
    for call in (model.ask, model.run):
        with pytest.raises(ArtifactError, match=match):
            call("classify_ids", **row(3))
    with pytest.raises(ArtifactError, match=match):
        model.shapes("classify_ids")
    with pytest.raises(ArtifactError, match=match):
        model.ones("classify_ids", 3)


def test_an_input_that_is_missing_or_unknown(model):
    ids = row(3)["token_ids"]
    match = r"embed was given token_ids; expected (token_ids|padding_mask), \w+\. Give"
    for call in (model.ask, model.run):
        with pytest.raises(DataError, match=match):
            call("embed", token_ids=ids)
        with pytest.raises(DataError, match="was given token_ids, padding_mask, segm"):
            call("embed", **row(3), segment_ids=ids)
        with pytest.raises(DataError, match="was given ids, mask; expected"):
            call("embed", ids=ids, mask=ids)
        with pytest.raises(DataError, match="was given nothing; expected"):
            call("embed")


def test_a_text_that_is_longer_than_the_file(model):
    assert model.ask("embed", **row(LENGTH))["embedding"].shape == (32,)
    match = rf"model_float32\.tflite: \w+ of embed has the shape \(1, {LENGTH + 1}\); "
    match += rf"expected \(1, {LENGTH}\), at most\. Shorten a longer text"
    with pytest.raises(DataError, match=match):
        model.ask("embed", **row(LENGTH + 1))
    match = rf"masked_positions of fill_mask has the shape \(1, {MASKS + 1}\); "
    with pytest.raises(DataError, match=rf"{match}expected \(1, {MASKS}\)\. Shorten"):
        model.ask("fill_mask", **row(9), masked_positions=np.arange(MASKS + 1))


def test_inputs_of_another_shape(model):
    ids = row(3)["token_ids"]
    with pytest.raises(DataError, match=r"of embed has the shape \(3,\); expected"):
        model.run("embed", token_ids=ids, padding_mask=ids)
    with pytest.raises(DataError, match=r"of embed has the shape \(1, 3, 1\); expect"):
        model.ask("embed", token_ids=ids[:, None], padding_mask=ids[:, None])


def test_a_file_that_is_no_model(tmp_path):
    file = tmp_path / "damaged.tflite"
    file.write_bytes(b"nothing")
    for model, where in ((file, str(file)), (b"nothing", "the TFLite file")):
        with pytest.raises(ArtifactError, match=f"^{where}: cannot be read as a TFLi"):
            TFLiteRunner(model)


def test_an_image_of_another_size(tmp_path):
    spec = tf.TensorSpec([1, 4, 4, 3], tf.uint8, name="image")
    endpoint = Endpoint(lambda image: {"sum": tf.cast(image, tf.float32)}, [spec])
    model = TFLiteRunner(convert({"classify_pixels": endpoint}, 1, tmp_path))
    match = r"the TFLite file: image of classify_pixels has the shape \(1, 3, 4, 3\); "
    with pytest.raises(DataError, match=rf"{match}expected \(1, 4, 4, 3\)\."):
        model.ask("classify_pixels", image=np.zeros((3, 4, 3), np.uint8))
