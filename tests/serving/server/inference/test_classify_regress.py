"""Signatures whose inputs and outputs are not what Classify, Regress or JSON can tell.

Sentences after tensorflow/serving: servables/tensorflow/classifier.cc, regressor.cc.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2 as t
from tensorflow.core.protobuf import meta_graph_pb2

from tests.serving.server.conftest import running, settings_for
from tests.serving.server.grpc_api.test_services import WAIT, predict_request
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.inference.classify_regress import (
    CLASSIFY,
    REGRESS,
    check_method,
    classification,
    regression,
)
from transbeam.serving.server.inference.signature import ServableSignature

NAME = "odd"
HALF, BRAIN = tf.float16.as_numpy_dtype, tf.bfloat16.as_numpy_dtype
EXAMPLES = 3
CLASSES = np.array([[b"a", b"b"]] * EXAMPLES, object)
SCORES = np.array([[0.25, 0.75]] * EXAMPLES, np.float32)
NUMBERS = np.array([1.5, 2.5, 3.5], np.float32)


def refusal(call, *given):
    with pytest.raises(StatusError) as caught:
        call(*given)
    return caught.value


@pytest.mark.parametrize(
    ("outputs", "pair"),
    [
        ({"classes": CLASSES, "scores": SCORES}, ("b", 0.75)),
        ({"classes": CLASSES}, ("b", 0.0)),
        ({"scores": SCORES}, ("", 0.75)),
    ],
)
def test_classes_scores_or_both(outputs, pair):
    rows = classification(outputs, EXAMPLES).classifications
    assert len(rows) == EXAMPLES
    assert all((row.classes[1].label, row.classes[1].score) == pair for row in rows)


SHAPE = "Expected Tensor shape: [batch_size num_classes] but got "
SIZE = "output batch size of 3. Got: 2"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"scores": SCORES[0, 0]}, f"{SHAPE}[]"),
        ({"scores": SCORES[:, 0]}, f"{SHAPE}[3]"),
        ({"classes": CLASSES[..., None], "scores": SCORES}, f"{SHAPE}[3,2,1]"),
        (
            {"classes": SCORES.astype("int32"), "scores": SCORES},
            "Expected classes Tensor of DT_STRING. Got: DT_INT32",
        ),
        (
            {"scores": SCORES.astype("float64")},
            "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE",
        ),
        ({"scores": CLASSES}, "Expected scores Tensor of DT_FLOAT. Got: DT_STRING"),
        (
            {"scores": SCORES.astype(BRAIN)},
            "Expected scores Tensor of DT_FLOAT. Got: DT_BFLOAT16",
        ),
        ({"classes": CLASSES[:2], "scores": SCORES}, f"Expected classes {SIZE}"),
        ({"classes": CLASSES, "scores": SCORES[:2]}, f"Expected scores {SIZE}"),
        (
            {"classes": CLASSES[:, :1], "scores": SCORES},
            "Tensors class and score should match in dim_size(1). Got 1 vs. 2",
        ),
    ],
)
def test_outputs_that_are_no_classes(outputs, message):
    # tensorflow/serving: classifier_test.cc:955 MismatchedNumberOfTensorClasses
    failure = refusal(classification, outputs, EXAMPLES)
    assert (failure.http, failure.message) == (400, message)


@pytest.mark.parametrize("values", [NUMBERS, NUMBERS[:, None]])
def test_a_number_for_each_example(values):
    found = regression({"outputs": values}, EXAMPLES).regressions
    assert [one.value for one in found] == [1.5, 2.5, 3.5]


SHAPE_OF_NUMBERS = (
    "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (NUMBERS[0], f"{SHAPE_OF_NUMBERS}[]"),
        (SCORES, f"{SHAPE_OF_NUMBERS}[3,2]"),
        (NUMBERS[:, None, None], f"{SHAPE_OF_NUMBERS}[3,1,1]"),
        (NUMBERS[:2], "Input batch size did not match output batch size: 3 vs. 2"),
        (
            NUMBERS.astype("float64"),
            "Expected output Tensor of DT_FLOAT.  Got: DT_DOUBLE",
        ),
        (NUMBERS.astype(HALF), "Expected output Tensor of DT_FLOAT.  Got: DT_HALF"),
    ],
)
def test_outputs_that_are_no_numbers_for_examples(values, message):
    # tensorflow/serving: regressor_test.cc:488 UnexpectedOutputTensorSize
    failure = refusal(regression, {"outputs": values}, EXAMPLES)
    assert (failure.http, failure.message) == (400, message)


@pytest.mark.parametrize(
    ("method", "inputs", "outputs", "code", "message"),
    [
        (CLASSIFY, "x y", "scores", "INVALID_ARGUMENT", "Expected one input Tensor."),
        (
            CLASSIFY,
            "inputs",
            "classes more scores",
            "INVALID_ARGUMENT",
            "Expected one or two output Tensors, found 3",
        ),
        (
            CLASSIFY,
            "x",
            "scores",
            "INVALID_ARGUMENT",
            "No classification inputs found in SignatureDef: ",
        ),
        (
            CLASSIFY,
            "inputs",
            "labels",
            "INVALID_ARGUMENT",
            'at least one of "classes" or "scores". Signature was: ',
        ),
        (
            REGRESS,
            "inputs",
            "y",
            "INVALID_ARGUMENT",
            "No regression outputs found in SignatureDef: ",
        ),
    ],
)
def test_signatures_of_other_names(method, inputs, outputs, code, message):
    # tensorflow/serving: servables/tensorflow/classifier.cc:197 classification
    definition = meta_graph_pb2.SignatureDef()
    for name in inputs.split():
        definition.inputs[name].dtype = t.DT_STRING
    for name in outputs.split():
        definition.outputs[name].dtype = t.DT_FLOAT
    failure = refusal(check_method, ServableSignature("odd", definition), method)
    assert failure.code.name == code
    assert message in failure.message


class Odd(tf.Module):
    def classify(self, inputs):
        return {"classes": tf.zeros([tf.size(inputs), 2], tf.int32)}

    def regress(self, inputs):
        return {"outputs": tf.zeros([tf.size(inputs), 2])}

    def half(self, x):
        return {"y": tf.cast(x, tf.float16)}

    def brain(self, x):
        return {"y": tf.cast(x, tf.bfloat16)}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder, model = tmp_path_factory.mktemp("models") / NAME, Odd()
    examples = tf.TensorSpec([None], tf.string, name="inputs")
    floats = tf.TensorSpec([None], tf.float32, name="x")
    signatures = {
        name: tf.function(getattr(model, name), input_signature=[spec])
        for name, spec in {
            "classify": examples,
            "regress": examples,
            "half": floats,
            "brain": floats,
        }.items()
    }
    tf.saved_model.save(model, str(folder / "1"), signatures=signatures)
    with running(settings_for(folder)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("classify", "Expected classes Tensor of DT_STRING. Got: DT_INT32"),
        ("regress", f"{SHAPE_OF_NUMBERS}[1,2]"),
    ],
)
def test_a_model_whose_outputs_are_something_else(served, method, message):
    body = {"signature_name": method, "examples": [{"x": 1.0}]}
    assert served.post(f"{NAME}:{method}", body) == (400, {"error": message})


@pytest.mark.parametrize(
    ("signature", "type_"), [("half", "float16"), ("brain", "bfloat16")]
)
def test_half_precision_is_told_over_grpc_only(served, signature, type_):
    body = {"signature_name": signature, "instances": [1.5]}
    message = f"Failed to write JSON value for tensor type: {type_}"
    assert served.post(f"{NAME}:predict", body) == (400, {"error": message})
    request = predict_request(NAME, signature, x=np.array([1.5], np.float32))
    found = served.prediction.Predict(request, WAIT).outputs["y"]
    assert tf.make_ndarray(found).tolist() == [1.5]
