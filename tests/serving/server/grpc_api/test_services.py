"""The gRPC API by the official stubs, held to TF Serving's tested behaviour.

Cases after tensorflow/serving: model_servers/tensorflow_model_server_test.py,
servables/tensorflow/predict_impl_test.cc, multi_inference_test.cc and
get_model_metadata_impl_test.cc, in our own words.
"""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.server.conftest import NAME, running, settings_for
from tests.serving.server.sample_models.half_plus_two_model import (
    save_half_plus,
    save_of_tensorflow_1,
)
from transbeam.serving.server.protocol.tensor_proto import to_proto

WAIT = 30.0


def predict_request(name=NAME, signature="", version=None, outputs=(), **inputs):
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for key, value in (inputs or {"x": np.array([2.0], np.float32)}).items():
        request.inputs[key].CopyFrom(to_proto(np.asarray(value)))
    return request


def examples_of(request, *values):
    for value in values:
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(value)
    return request


def refused(call, request):
    with pytest.raises(grpc.RpcError) as caught:
        call(request, WAIT)
    return caught.value.code(), caught.value.details()


def test_predict_answers_in_the_fields_that_clients_read(server):
    # tensorflow/serving: predict_util_test.cc:349 PredictionSuccess
    response = server.prediction.Predict(predict_request(outputs=["y"]), WAIT)
    assert response.outputs["y"].dtype == tf.float32.as_datatype_enum
    assert list(response.outputs["y"].float_val) == [3.0]
    spec = response.model_spec
    assert (spec.name, spec.version.value) == (NAME, 123)
    assert spec.signature_name == "serving_default"


def test_only_what_the_filter_names_is_answered(server):
    # tensorflow/serving: predict_util_test.cc:436 PredictionWithCustomizedSignatures
    request = predict_request(
        signature="two",
        outputs=["as_text"],
        x=np.array([2.0], np.float32),
        scale=np.array([7], np.int32),
    )
    response = server.prediction.Predict(request, WAIT)
    assert list(response.outputs) == ["as_text"]
    assert list(response.outputs["as_text"].string_val) == [b"7"]


def test_a_version_by_its_number(server):
    response = server.prediction.Predict(predict_request(version=123), WAIT)
    assert response.model_spec.version.value == 123


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (predict_request("foo"), "NOT_FOUND", "Servable not found for request: Latest"),
        (predict_request(version=9), "NOT_FOUND", f"Specific({NAME}, 9)"),
        (
            predict_request(signature="zz"),
            "FAILED_PRECONDITION",
            'Serving signature key "zz" not found.',
        ),
        (
            predict_request(z=np.array([1.0], np.float32)),
            "INVALID_ARGUMENT",
            "Sent extra: {z}. Missing but required: {x}.",
        ),
        (predict_request(outputs=["q"]), "INVALID_ARGUMENT", "alias not found"),
        (predict_request(outputs=["y", "y"]), "INVALID_ARGUMENT", "duplicate output"),
        (
            predict_request(x=np.array([1], np.int32)),
            "INVALID_ARGUMENT",
            "Expects arg[0] to be float but int32 is provided",
        ),
    ],
)
def test_what_predict_refuses(server, request_, code, message):
    # tensorflow/serving: predict_util_test.cc:274 OutputFiltersDontMatchModelSpecOutput
    # tensorflow/serving: predict_util_test.cc:332 ModelMissingSignatures
    found, details = refused(server.prediction.Predict, request_)
    assert found is grpc.StatusCode[code]
    assert message in details


def test_rows_that_are_none(server):
    request = predict_request(x=np.zeros([0], np.float32))
    response = server.prediction.Predict(request, WAIT)
    assert [dim.size for dim in response.outputs["y"].tensor_shape.dim] == [0]


def test_ten_thousand_rows(server):
    texts = np.array([b"a" * (n % 300) for n in range(10_000)], object)
    request = predict_request(signature="rows", outputs=["length"], text=texts)
    response = server.prediction.Predict(request, WAIT)
    assert list(response.outputs["length"].int_val) == [n % 300 for n in range(10_000)]


def test_a_gigantic_message(server):
    text = np.array([b"a" * 2**24], object)
    code, details = refused(
        server.prediction.Predict, predict_request(signature="rows", text=text)
    )
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in details
    response = server.prediction.Predict(predict_request(), WAIT)
    assert list(response.outputs["y"].float_val) == [3.0]


def test_classify(server):
    # tensorflow/serving: model_servers/tensorflow_model_server_test.py:165 testClassify
    request = examples_of(classification_pb2.ClassificationRequest(), 2.0, 20.0)
    request.model_spec.name = NAME
    request.model_spec.signature_name = "classify_x_to_y"
    response = server.prediction.Classify(request, WAIT)
    rows = response.result.classifications
    assert [[(c.label, c.score) for c in row.classes] for row in rows] == [
        [("y", 3.0)],
        [("y", 12.0)],
    ]
    assert response.model_spec.version.value == 123


# The second is said to be for Predict, as all are that `tf.saved_model.save` writes.
@pytest.mark.parametrize("signature", ["regress_x_to_y", "regress_plainly"])
def test_regress(server, signature):
    # tensorflow/serving: tensorflow_model_server_test.py:203 testRegressTf2
    request = examples_of(regression_pb2.RegressionRequest(), 80.0)
    request.model_spec.name = NAME
    request.model_spec.signature_name = signature
    response = server.prediction.Regress(request, WAIT)
    assert [one.value for one in response.result.regressions] == [42.0]


@pytest.mark.parametrize(
    ("signature", "expected", "message"),
    [
        ("", "INVALID_ARGUMENT", "No regression inputs found in SignatureDef"),
        ("zz", "INVALID_ARGUMENT", "No signature was found with the name: zz"),
        ("two", "INVALID_ARGUMENT", "Expected one input Tensor."),
        ("classify_x_to_y", "INVALID_ARGUMENT", "Expected one output Tensor."),
    ],
)
def test_signatures_that_are_not_for_regress(server, signature, expected, message):
    # tensorflow/serving: regressor_test.cc:374 InvalidNamedSignature
    request = examples_of(regression_pb2.RegressionRequest(), 80.0)
    request.model_spec.name = NAME
    request.model_spec.signature_name = signature
    code, details = refused(server.prediction.Regress, request)
    assert code.name == expected
    assert message in details


def test_no_examples(server):
    # tensorflow/serving: servables/tensorflow/regressor_test.cc:436 EmptyExampleList
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = NAME
    request.model_spec.signature_name = "regress_x_to_y"
    code, details = refused(server.prediction.Regress, request)
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "Input is empty.")


def multi(*tasks, value=2.0):
    request = inference_pb2.MultiInferenceRequest()
    for name, signature, method in tasks:
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name = name
        task.model_spec.signature_name = signature
    return examples_of(request, value)


REGRESS = (NAME, "regress_x_to_y", "regress")
CLASSIFY = (NAME, "classify_x_to_y", "classify")


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (multi(REGRESS, REGRESS), "INVALID_ARGUMENT", "Duplicate evaluation of sig"),
        (multi(REGRESS, ("x", "a", "regress")), "INVALID_ARGUMENT", "the same model"),
        (multi(REGRESS, ("", "a", "regress")), "INVALID_ARGUMENT", "empty model name"),
        (multi(("", "a", "regress")), "INVALID_ARGUMENT", "ModelSpec has no name spec"),
        (multi(("foo", "a", "regress")), "NOT_FOUND", "Servable not found for request"),
        (multi((NAME, "zz", "regress")), "INVALID_ARGUMENT", "Requested signature not"),
        (multi((NAME, "two", "predict")), "UNIMPLEMENTED", "Unsupported signature"),
        (multi((NAME, "two", "Regress")), "UNIMPLEMENTED", "Unsupported signature"),
        (multi((NAME, "two", "regress")), "INVALID_ARGUMENT", "Expected one input Ten"),
        (multi(), "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    ],
)
def test_what_multi_inference_refuses(server, request_, code, message):
    # tensorflow/serving: multi_inference_test.cc:207 InconsistentModelSpecsInRequestTes
    # tensorflow/serving: multi_inference_test.cc:241 EvaluateDuplicateSignaturesTest
    found, details = refused(server.prediction.MultiInference, request_)
    assert found is grpc.StatusCode[code]
    assert message in details


def test_multi_inference(tmp_path):
    # tensorflow/serving: multi_inference_test.cc:364 RegressAndClassifySignaturesTest
    save_of_tensorflow_1(tmp_path / NAME / "1")
    with running(settings_for(tmp_path / NAME)) as client:
        request = multi(REGRESS, CLASSIFY)
        regressed, classified = client.prediction.MultiInference(request, WAIT).results
    assert [one.value for one in regressed.regression_result.regressions] == [3.0]
    [row] = classified.classification_result.classifications
    assert [(one.label, one.score) for one in row.classes] == [("", 3.0)]
    assert regressed.model_spec.signature_name == "regress_x_to_y"


def test_multi_inference_of_signatures_with_inputs_of_their_own(server):
    """As `tf.saved_model.save` writes them: each is given the same examples."""
    # tensorflow/serving: servables/tensorflow/util.cc:252 input_tensor_names
    request = multi(REGRESS, CLASSIFY, value=20.0)
    regressed, classified = server.prediction.MultiInference(request, WAIT).results
    assert [one.value for one in regressed.regression_result.regressions] == [12.0]
    [row] = classified.classification_result.classifications
    assert [(one.label, one.score) for one in row.classes] == [("y", 12.0)]
    assert classified.model_spec.version.value == 123


def test_metadata(server):
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        metadata_field=["signature_def"]
    )
    request.model_spec.name = NAME
    response = server.prediction.GetModelMetadata(request, WAIT)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(found)
    # tensorflow/serving: servables/tensorflow/get_model_metadata_impl.cc:56 bundle
    assert "__saved_model_init_op" in found.signature_def
    assert found.signature_def["serving_default"].inputs["x"].dtype == 1
    assert response.model_spec.version.value == 123


def test_a_signature_that_has_no_tensors(server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = NAME
    request.model_spec.signature_name = "__saved_model_init_op"
    code, details = refused(server.prediction.Predict, request)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details == "the signature names a tensor that is none"


@pytest.mark.parametrize(
    ("fields", "message"), [([], "at least one"), (["size"], "size is not supported")]
)
def test_metadata_that_there_is_not(server, fields, message):
    # tensorflow/serving: get_model_metadata_impl_test.cc:123 EmptyOrInvalidMetadataFiel
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = NAME
    code, details = refused(server.prediction.GetModelMetadata, request)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert message in details


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("Predict", predict_pb2.PredictRequest()),
        ("Classify", classification_pb2.ClassificationRequest()),
        ("Regress", regression_pb2.RegressionRequest()),
        (
            "GetModelMetadata",
            get_model_metadata_pb2.GetModelMetadataRequest(
                metadata_field=["signature_def"]
            ),
        ),
    ],
)
def test_who_is_asked_must_be_named(server, call, request_):
    # tensorflow/serving: get_model_metadata_impl_test.cc:141 MissingOrEmptyModelSpec
    ask = getattr(server.prediction, call)
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert refused(ask, request_) == (invalid, "Missing ModelSpec")
    request_.model_spec.SetInParent()
    assert refused(ask, request_) == (invalid, "ModelSpec has no name specified.")
    request_.model_spec.name = "foo"
    message = "Servable not found for request: Latest(foo)"
    assert refused(ask, request_) == (grpc.StatusCode.NOT_FOUND, message)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "Could not find any versions of model foo"),
        (9, "Could not find version 9 of model foo"),
    ],
)
def test_the_status_of_a_model_that_there_is_not(server, version, message):
    # tensorflow/serving: get_model_status_impl_test.cc:105 InvalidModelNameFailure
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "foo"
    if version is not None:
        request.model_spec.version.value = version
    found = refused(server.models.GetModelStatus, request)
    assert found == (grpc.StatusCode.NOT_FOUND, message)


def test_status(server):
    # tensorflow/serving: get_model_status_impl_test.cc:94 MissingOrEmptyModelSpecFailur
    request = get_model_status_pb2.GetModelStatusRequest()
    assert refused(server.models.GetModelStatus, request) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "Missing ModelSpec",
    )
    request.model_spec.name = NAME
    [status] = server.models.GetModelStatus(request, WAIT).model_version_status
    assert (status.version, status.state) == (123, 30)
    assert (status.status.error_code, status.status.error_message) == (0, "")


def test_the_models_are_what_the_last_configuration_says(tmp_path, half_plus_two):
    # tensorflow/serving: server_core_test.cc:132 ReloadConfigUnloadsModels
    three = tmp_path / "half_plus_three"
    save_half_plus(three / "1", 3.0)
    with running(settings_for(half_plus_two, reload_roots=(tmp_path,))) as client:
        request = model_management_pb2.ReloadConfigRequest()
        models = request.config.model_config_list.config
        model = models.add(name="three", base_path=str(three))
        response = client.models.HandleReloadConfigRequest(request, WAIT)
        assert response.status.error_code == 0
        # A label is for a version that answers already.
        model.version_labels["stable"] = 1
        client.models.HandleReloadConfigRequest(request, WAIT)
        asked = predict_request("three")
        asked.model_spec.version_label = "stable"
        answer = client.prediction.Predict(asked, WAIT)
        assert list(answer.outputs["y"].float_val) == [4.0]
        code, _ = refused(client.prediction.Predict, predict_request())
        assert code is grpc.StatusCode.NOT_FOUND
        empty = model_management_pb2.ReloadConfigRequest()
        code, _ = refused(client.models.HandleReloadConfigRequest, empty)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        answer = client.prediction.Predict(asked, WAIT)
        assert list(answer.outputs["y"].float_val) == [4.0]
