"""Request lines are understood as TF Serving understands them, and no others."""

import pytest

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.rest_paths import (
    MetadataRequest,
    ModelRequest,
    ModelTarget,
    malformed,
    parse,
)

LARGEST = 2**63 - 1


@pytest.mark.parametrize("method", ["predict", "classify", "regress", "stream"])
@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("m", ModelTarget("m")),
        ("m/versions/3", ModelTarget("m", version=3)),
        ("m/versions/0", ModelTarget("m", version=0)),
        ("m/versions/000123", ModelTarget("m", version=123)),
        (f"m/versions/{LARGEST}", ModelTarget("m", version=LARGEST)),
        (f"m/versions/{'0' * 5000}7", ModelTarget("m", version=7)),
        ("m/labels/stable", ModelTarget("m", label="stable")),
        ("m/labels/3", ModelTarget("m", label="3")),
        ("M-1_a.b", ModelTarget("M-1_a.b")),
        ("versions", ModelTarget("versions")),
        ("labels/versions/1", ModelTarget("labels", version=1)),
    ],
)
def test_questions_and_looks(path, target, method):
    # tensorflow/serving: http_rest_api_util_test.cc:33 TestParseModelInfoForGet
    # tensorflow/serving: http_rest_api_util_test.cc:120 TestParseModelInfoForPost
    assert parse("POST", f"/v1/models/{path}:{method}") == ModelRequest(target, method)
    assert parse("GET", f"/v1/models/{path}") == MetadataRequest(target, metadata=False)
    assert parse("GET", f"/v1/models/{path}/metadata") == MetadataRequest(
        target, metadata=True
    )


def test_case_matters_in_names_and_in_the_last_word():
    # tensorflow/serving: model_servers/http_rest_api_handler.cc:86 classify
    # tensorflow/serving: model_servers/http_rest_api_handler.cc:98 metadata
    target = ModelTarget("Ab", label="Cd")
    question = parse("POST", "/V1/MODELS/Ab/LABELS/Cd:predict")
    assert question == ModelRequest(target, "predict")
    look = parse("GET", "/V1/Models/Ab/Labels/Cd/METADATA")
    assert look == MetadataRequest(target, metadata=False)
    look = parse("GET", "/V1/Models/Ab/Labels/Cd/metadata")
    assert look == MetadataRequest(target, metadata=True)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("half%5Fplus%5ftwo", "half_plus_two"),
        ("a%2Fb", "a/b"),
        ("..%2f..%2fetc", "../../etc"),
        ("a%3Ab", "a:b"),
        ("%C3%A9", "é"),
        ("é", "é"),
        ("%ff", "�"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("%2541", "%41"),
        ("a+b c", "a+b c"),
        ("x?y#z", "x?y#z"),
    ],
)
def test_names_and_labels_are_decoded_once(written, read):
    # tensorflow/serving: model_servers/http_rest_api_util.cc:69 DecodeArg
    assert parse("GET", f"/v1/models/{written}").target == ModelTarget(read)
    question = parse("POST", f"/v1/models/m/labels/{written}:predict")
    assert question.target == ModelTarget("m", label=read)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/models"),
        ("POST", "/v1/models/m"),
        ("POST", "/v1/models/m:predict/"),
        ("POST", "/v1/models/m:predict:predict"),
        ("POST", "/v1/models/m:predicts"),
        ("POST", "/v1/models/m:PREDICT"),
        ("POST", "/v1/models/m:Classify"),
        ("POST", "/v1/models/m/versions/1:rEgress"),
        ("POST", "/v1/models/m:STREAM"),
        ("POST", "/v1/models/m:multi"),
        ("POST", "/v1/models/:predict"),
        ("POST", "/v1/models//versions/1:predict"),
        ("POST", "/v1/models/m%3Apredict"),
        ("POST", "/v1/models/m/version/1:predict"),
        ("POST", "/v1/models/m/versions/:predict"),
        ("POST", "/v1/models/m/versions/a:predict"),
        ("POST", "/v1/models/m/versions/-1:predict"),
        ("POST", "/v1/models/m/versions/+1:predict"),
        ("POST", "/v1/models/m/versions/1.0:predict"),
        ("POST", "/v1/models/m/versions/%31:predict"),
        ("POST", "/v1/models/m/versions/1/labels/a:predict"),
        ("POST", "/v1/models/m/labels/:predict"),
        ("POST", "/v1/models/m:predict\n"),
        ("POST", " /v1/models/m:predict"),
        ("POST", "/v2/models/m:predict"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/m/"),
        ("GET", "/v1/models/m/metadata/"),
        ("GET", "/v1/models/m/other"),
        ("GET", "/v1/models/m:predict"),
        ("GET", "/v1/foo"),
        ("GET", ""),
        ("get", "/v1/models/m"),
        ("PUT", "/v1/models/m:predict"),
        ("DELETE", "/v1/models/m"),
    ],
)
def test_what_is_malformed(method, path):
    # tensorflow/serving: http_rest_api_handler_test.cc:179 UnsupportedApiCalls
    with pytest.raises(StatusError) as caught:
        parse(method, path)
    assert caught.value.http == 400
    assert caught.value.message == f"Malformed request: {method} {path}"
    assert malformed(method, path).message == caught.value.message


@pytest.mark.parametrize("path", ["", "/versions/3", "/labels/stable"])
def test_a_look_at_no_model(path):
    # tensorflow/serving: model_servers/http_rest_api_handler.cc:188 request.
    with pytest.raises(StatusError, match=r"Missing model name in request\."):
        parse("GET", f"/v1/models{path}")


@pytest.mark.parametrize(
    "version", [LARGEST + 1, 2**64 - 1, "9" * 5000, "0" * 5000 + "9" * 20]
)
def test_versions_that_are_too_large(version):
    # tensorflow/serving: model_servers/http_rest_api_util.cc:119 convert
    for method, end in (("POST", ":predict"), ("GET", "")):
        with pytest.raises(StatusError) as caught:
            parse(method, f"/v1/models/m/versions/{version}{end}")
        message = f"Failed to convert version: {version} to numeric."
        assert (caught.value.http, caught.value.message) == (400, message)


@pytest.mark.parametrize("version", ["\u0663", "\uff13", "1\u0663", "\xb2"])
def test_digits_of_other_scripts(version):
    with pytest.raises(StatusError) as caught:
        parse("POST", f"/v1/models/m/versions/{version}:predict")
    assert caught.value.http == 400


@pytest.mark.parametrize("path", ["/v1/modelſ/m:predict", "/v1/models/m:claſſify"])
def test_letters_of_other_scripts(path):
    with pytest.raises(StatusError, match="Malformed request"):
        parse("POST", path)
