"""The TFLite files, in the interpreter that phones have."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tensorflow.lite.python import schema_py_generated as schema

from tests.serving.conftest import LENGTH, TINY
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import check_flatbuffer

MASKS = TINY.export.tflite_masks
MODES = [OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES]
VARIANTS = ["float32", "dynamic_int8"]


def interpreter(exported, variant, mode=OpResolverType.AUTO):
    path = str(exported.tflite / f"model_{variant}.tflite")
    return Interpreter(path, experimental_op_resolver_type=mode, num_threads=1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_signatures_and_shapes(exported, variant, trained):
    model = interpreter(exported, variant)

    def described(details):
        return {
            name: (detail["dtype"], detail["shape"].tolist())
            for name, detail in details.items()
        }

    assert set(model.get_signature_list()) == {"fill_mask", "embed"}
    sequence = {
        "token_ids": (np.int32, [1, LENGTH]),
        "padding_mask": (np.int32, [1, LENGTH]),
    }
    fill_mask = model.get_signature_runner("fill_mask")
    assert described(fill_mask.get_input_details()) == {
        **sequence,
        "masked_positions": (np.int32, [1, MASKS]),
    }
    assert described(fill_mask.get_output_details()) == {
        "logits": (np.float32, [1, MASKS, trained.tokenizer.vocabulary_size])
    }
    embed = model.get_signature_runner("embed")
    assert described(embed.get_input_details()) == sequence
    assert described(embed.get_output_details()) == {
        "embedding": (np.float32, [1, TINY.model.hidden_dim])
    }


def ask(model):
    """Both signatures' answers to one text of 20 tokens, and those of `trained`."""
    rng = np.random.default_rng(5)
    real = 20
    token_ids = np.zeros((1, LENGTH), np.int32)
    token_ids[0, :real] = rng.integers(5, 100, real)
    padding_mask = (np.arange(LENGTH) < real)[None].astype(np.int32)
    positions = np.array([[1, 4, 19, 0]], np.int32)
    fill_mask = model.get_signature_runner("fill_mask")
    embed = model.get_signature_runner("embed")
    padded = {"token_ids": token_ids, "padding_mask": padding_mask}
    alone = {name: array[:, :real] for name, array in padded.items()}
    return (
        alone | {"masked_positions": positions},
        fill_mask(**padded, masked_positions=positions)["logits"],
        embed(**padded)["embedding"],
    )


@pytest.mark.parametrize("mode", MODES)
def test_answers_are_keras_s(exported, trained, body, mode):
    inputs, logits, vector = ask(interpreter(exported, "float32", mode))
    positions = inputs.pop("masked_positions")
    expected = trained.model(inputs | {"masked_positions": positions})["logits"]
    np.testing.assert_allclose(logits, expected.numpy(), atol=2e-5, rtol=0)
    expected = body(inputs)["sequence_output"].numpy().mean(axis=1)
    np.testing.assert_allclose(vector, expected, atol=2e-6, rtol=0)


# By root mean square: the largest of 560 rounding errors is another number on every
# processor, because the weights themselves are trained there.
@pytest.mark.parametrize("mode", MODES)
def test_int8_answers_are_near_keras_s(exported, trained, body, mode):
    inputs, logits, vector = ask(interpreter(exported, "dynamic_int8", mode))
    positions = inputs.pop("masked_positions")
    expected = trained.model(inputs | {"masked_positions": positions})["logits"].numpy()
    assert rms(logits - expected) < 0.1 * rms(expected)
    expected = body(inputs)["sequence_output"].numpy().mean(axis=1)
    assert rms(vector - expected) < 0.1 * rms(expected)


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def test_what_stands_in_the_padding_does_not_matter(exported):
    model = interpreter(exported, "float32").get_signature_runner("embed")
    token_ids = np.full((1, LENGTH), 7, np.int32)
    padding_mask = (np.arange(LENGTH) < 9)[None].astype(np.int32)
    expected = model(token_ids=token_ids, padding_mask=padding_mask)["embedding"]
    token_ids[0, 9:] = np.arange(9, LENGTH)
    found = model(token_ids=token_ids, padding_mask=padding_mask)["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_int8_weights_are_smaller(exported, trained):
    sizes = {
        variant: (exported.tflite / f"model_{variant}.tflite").stat().st_size
        for variant in VARIANTS
    }
    saved = 4 * trained.model.count_params() - trained.model.count_params()
    assert sizes["float32"] - sizes["dynamic_int8"] > saved / 2


def test_the_embedding_table_is_there_once(exported, trained):
    """Both signatures read it, and the head reads it backwards."""
    content = (exported.tflite / "model_float32.tflite").read_bytes()
    model = schema.Model.GetRootAsModel(content, 0)
    table = trained.model.get_layer("token_embedding").embeddings.numpy()
    sizes = [model.Buffers(i).DataLength() for i in range(model.BuffersLength())]
    assert sizes.count(table.nbytes) == 1
    assert content.count(table.tobytes()) == 1


def test_the_vocabulary_lies_beside(exported, run_folder):
    expected = (run_folder / "data/tokenizer/vocab.txt").read_bytes()
    assert (exported.tflite / "vocab.txt").read_bytes() == expected


def convert(function, *holders):
    concrete = tf.function(
        function, input_signature=[tf.TensorSpec([1, 3], tf.float32)]
    ).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], *holders)
    converter.allow_custom_ops = True
    return converter.convert()


def test_a_file_without_its_weights_is_refused():
    """The converter does not complain, and the interpreter answers nonsense."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    content = convert(lambda x: model(x), model)
    with pytest.raises(ArtifactError, match=r"wrong\.tflite: uses .*READ_VARIABLE"):
        check_flatbuffer(content, "wrong.tflite")


def test_an_op_outside_tflite_is_refused():
    content = convert(lambda x: tf.math.erf(x), tf.Module())
    with pytest.raises(ArtifactError, match=r"wrong\.tflite: uses .*Erf"):
        check_flatbuffer(content, "wrong.tflite")
