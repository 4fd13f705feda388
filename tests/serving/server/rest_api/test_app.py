"""The REST API over HTTP, held to TF Serving's documented and tested behaviour.

Cases after tensorflow/serving: model_servers/http_rest_api_handler_test.cc and
model_servers/tensorflow_model_server_test.py, in our own words.
"""

import gzip

import pytest
from grpc import StatusCode

from transbeam.serving.server.base.status import from_number
from transbeam.serving.server.inference.servable import Servable

MODEL = "half_plus_two"
AVAILABLE = {
    "model_version_status": [
        {
            "version": "123",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
    ]
}


@pytest.mark.parametrize(
    "path",
    [
        f"{MODEL}:predict",
        f"{MODEL}/versions/123:predict",
        f"{MODEL}/VERSIONS/000123:predict",
        "half%5Fplus%5ftwo:predict",
    ],
)
def test_predict(server, path):
    body = {"instances": [1.0, 2.0, 5.0]}
    assert server.post(path, body) == (200, {"predictions": [2.5, 3.0, 4.5]})


def test_signature_and_columns(server):
    body = {"signature_name": "serving_default", "inputs": [3.0, 4.0]}
    assert server.post(f"{MODEL}:predict", body) == (200, {"outputs": [3.5, 4.0]})
    body = {"signature_name": "two", "inputs": {"x": [2.0], "scale": [3]}}
    answer = {"outputs": {"y": [9.0], "as_text": ["3"]}}
    assert server.post(f"{MODEL}:predict", body) == (200, answer)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([1.0, 2.0, 5.0], [2.5, 3.0, 4.5]),
        ([[1.0], [2.0]], [[2.5], [3.0]]),
        ([[1.0, 2.0]], [[2.5, 3.0]]),
        (1.0, 2.5),
    ],
)
@pytest.mark.parametrize("signature", ["serving_default", "column"])
def test_the_graph_decides_of_shapes(server, signature, inputs, outputs):
    # tensorflow/serving: g3doc/api_rest.md:470 instances
    # tensorflow/serving: servables/tensorflow/predict_util.cc:129 GetInputValues
    body = {"signature_name": signature, "inputs": inputs}
    assert server.post(f"{MODEL}:predict", body) == (200, {"outputs": outputs})
    if isinstance(inputs, list):
        body = {"signature_name": signature, "instances": inputs}
        assert server.post(f"{MODEL}:predict", body) == (200, {"predictions": outputs})


def test_a_shape_that_the_graph_cannot_digest(server):
    body = {"signature_name": "sums", "instances": [1, 2]}
    status, answer = server.post(f"{MODEL}:predict", body)
    assert status == 400
    assert "Invalid reduction dimension (1 for input with 1 dim" in answer["error"]


def test_rows_of_several_inputs(server):
    rows = [{"x": 2.0, "scale": 3}, {"x": 4, "scale": -1}]
    answer = [{"y": 9.0, "as_text": "3"}, {"y": -4.0, "as_text": "-1"}]
    body = {"signature_name": "two", "instances": rows}
    assert server.post(f"{MODEL}:predict", body) == (200, {"predictions": answer})


def test_the_text_of_an_answer(server):
    # tensorflow/serving: model_servers/http_rest_api_handler_test.cc:330 Predict
    path = f"/v1/models/{MODEL}:predict"
    status, headers, body = server.send("POST", path, b'{"instances": [1, 2]}')
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert body == b'{\n    "predictions": [2.5, 3.0\n    ]\n}'


def test_regress(server):
    body = {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]}
    assert server.post(f"{MODEL}:regress", body) == (200, {"results": [42.0]})


def test_classify(server):
    body = {"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}]}
    assert server.post(f"{MODEL}:classify", body) == (200, {"results": [[["y", 12.0]]]})


def test_the_context_of_examples_counts_less_than_they(server):
    body = {
        "signature_name": "regress_x_to_y",
        "context": {"x": 80.0},
        "examples": [{}, {"x": 20.0}],
    }
    assert server.post(f"{MODEL}:regress", body) == (200, {"results": [42.0, 12.0]})


@pytest.mark.parametrize("path", ["", "/versions/123", "/labels/unheard-of"])
def test_status(server, path):
    # tensorflow/serving: model_servers/http_rest_api_handler_test.cc:448 GetStatus
    # tensorflow/serving: http_rest_api_handler.cc:102 ProcessModelStatusRequest
    assert server.get(f"/v1/models/{MODEL}{path}") == (200, AVAILABLE)


def test_metadata(server):
    # tensorflow/serving: http_rest_api_handler_test.cc:515 GetModelMetadata
    status, found = server.get(f"/v1/models/{MODEL}/metadata")
    assert status == 200
    spec = {"name": MODEL, "version": "123", "signature_name": ""}
    assert found["model_spec"] == spec
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert signature["inputs"]["x"]["tensor_shape"] == shape


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("POST", "/v1/foo", 400, "Malformed request: POST /v1/foo"),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("POST", "/v1/models", 400, "Malformed request"),
        ("GET", "/v1/models/foo:predict", 400, "Malformed request"),
        ("POST", "/v1/models/foo/version/50:regress", 400, "Malformed request"),
        ("POST", "/v1/models/foo/versions/HELLO:regress", 400, "Malformed request"),
        (
            "POST",
            f"/v1/models/foo/versions/{2**64 - 1}:regress",
            400,
            f"Failed to convert version: {2**64 - 1} to numeric.",
        ),
        ("PUT", f"/v1/models/{MODEL}:predict", 400, "Malformed request"),
        ("DELETE", f"/v1/models/{MODEL}", 400, "Malformed request"),
        ("GET", "/v1/models/foo", 404, "Could not find any versions of model foo"),
        (
            "GET",
            f"/v1/models/{MODEL}/versions/9",
            404,
            f"Could not find version 9 of model {MODEL}",
        ),
        ("GET", "/v1/models/foo/metadata", 404, "Servable not found for request: Lat"),
        ("GET", "/", 404, "there is nothing at /"),
        ("GET", "/%0A", 404, "there is nothing at /%0A"),
        ("GET", "/livez/", 404, "there is nothing at /livez/"),
        (
            "GET",
            f"/v1/models/{MODEL}/labels/%0A/metadata",
            400,
            "Unrecognized servable version label: \n",
        ),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404, "Could not find any"),
    ],
)
def test_what_is_not_there(server, method, path, status, message):
    # tensorflow/serving: model_servers/http_server.cc:146 Ignoring
    # tensorflow/serving: get_model_status_impl_test.cc:121 InvalidModelVersionFailure
    found, answer = _json(server.send(method, path, b""))
    assert found == status
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("foo:predict", 404, "Servable not found for request: Latest(foo)"),
        ("foo/versions/50:predict", 404, "for request: Specific(foo, 50)"),
        (f"{MODEL}/versions/99:predict", 404, f"for request: Specific({MODEL}, 99)"),
        (f"{MODEL}/labels/x:predict", 400, "Unrecognized servable version label: x"),
        (f"{MODEL}:classify", 400, "When method is classify, key 'examples'"),
    ],
)
def test_models_and_versions_that_are_not_there(server, path, status, message):
    # tensorflow/serving: http_rest_api_handler_test.cc:260 PredictModelNameVersionError
    found, answer = server.post(path, {"instances": [1.0]})
    assert found == status
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"instances = [1, 2]", "JSON Parse error: Invalid value. at offset: 0"),
        (b'{"instances": ["a"]}', "is not of expected type: float"),
        (b'{"instances": []}', "No values in 'instances' array"),
        (
            b'{"signature_name": "zz", "instances": [1]}',
            'Serving signature name: "zz" not found in signature def',
        ),
        (b'{"instances": [\xff]}', "the body is not UTF-8"),
        (b'{"instances": ["\\ud800"]}', "is not of expected type: float"),
        (b"[" * 100_000, "JSON Parse error: nested more than 64 deep"),
        (b'{"instances": ' + b"[" * 500 + b"1" + b"]" * 500 + b"}", "nested more than"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_bodies_that_cannot_be_read(server, body, message):
    # tensorflow/serving: util/json_tensor.cc:475 document
    # tensorflow/serving: model_servers/http_rest_api_handler.cc:238 signature
    status, answer = server.post(f"{MODEL}:predict", body)
    assert status == 400
    assert message in answer["error"]


def test_a_body_in_gzip(server):
    # tensorflow/serving: evhttp_request.cc:182 NeedUncompressGzipContent
    body = gzip.compress(b'{"instances": [1.0]}')
    answer = server.post(f"{MODEL}:predict", body, **{"Content-Encoding": "gzip"})
    assert answer == (200, {"predictions": [2.5]})


@pytest.mark.parametrize(
    ("body", "encoding", "status", "message"),
    [
        (
            gzip.compress(b" " * 2**25, mtime=0),
            "gzip",
            413,
            "larger than the 16,777,216 bytes",
        ),
        (gzip.compress(b"{}", mtime=0)[:-9], "gzip", 400, "cut off"),
        (b"{}", "gzip", 400, "is not gzip"),
        (b"{}", "br", 415, "Content-Encoding br"),
        (b" " * (2**24 + 1), "identity", 413, "larger than the 16,777,216 bytes"),
    ],
    ids=["a bomb", "cut off", "no gzip", "another packing", "too large"],
)
def test_bodies_that_are_packed_badly(server, body, encoding, status, message):
    found, answer = server.post(
        f"{MODEL}:predict", body, **{"Content-Encoding": encoding}
    )
    assert found == status
    assert message in answer["error"]


def test_ten_thousand_rows(server):
    texts = ["a" * (n % 300) for n in range(10_000)]
    body = {"signature_name": "rows", "instances": texts}
    status, answer = server.post(f"{MODEL}:predict", body)
    assert status == 200
    lengths = [row["length"] for row in answer["predictions"]]
    assert lengths == [n % 300 for n in range(10_000)]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("PERMISSION_DENIED", 403),
        ("ALREADY_EXISTS", 409),
        ("ABORTED", 409),
        ("CANCELLED", 499),
        ("DATA_LOSS", 500),
        ("INTERNAL", 500),
        ("UNKNOWN", 500),
    ],
)
def test_what_fails_in_the_graph(server, monkeypatch, code, status):
    # tensorflow/serving: model_servers/http_server.cc:46 ToHTTPStatusCode
    def fail(*arguments, **how):
        raise from_number(StatusCode[code].value[0], "its own words")

    monkeypatch.setattr(Servable, "run_tensors", fail)
    answer = server.post(f"{MODEL}:predict", {"instances": [1.0]})
    assert answer == (status, {"error": "its own words"})


def test_what_nobody_thought_of_is_told_to_the_log_only(server, monkeypatch, caplog):
    def fail(*arguments, **how):
        raise RuntimeError("a secret")

    monkeypatch.setattr(Servable, "run_tensors", fail)
    answer = server.post(f"{MODEL}:predict", {"instances": [1.0]})
    assert answer == (500, {"error": "Internal error; see the server's log"})
    assert "a secret" in caplog.text


def test_doors_for_those_who_watch(server):
    # tensorflow/serving: tensorflow_model_server_test.py:582 testPrometheusEndpoint
    assert server.send("GET", "/livez")[::2] == (200, b"ok\n")
    assert server.send("GET", "/readyz")[::2] == (200, b"ok\n")
    server.post(f"{MODEL}:predict", {"instances": [1.0]})
    status, headers, page = server.send("GET", "/monitoring/prometheus/metrics")
    assert status == 200
    labels = f'{{model_name="{MODEL}",version="123"}}'
    assert f"transbeam_model_memory_bytes{labels} ".encode() in page
    assert headers["content-type"].startswith("text/plain")
    count = f':tensorflow:serving:request_count{{model_name="{MODEL}",status="OK"}}'
    assert count in page.decode()
    assert f'API="Predict",entrypoint="REST",model_name="{MODEL}"' in page.decode()


@pytest.mark.parametrize(
    "name", ["runtime_latency", "batching_session:queuing_latency"]
)
def test_times_by_the_names_that_dashboards_read(server, name):
    # tensorflow/serving: util.cc:72 /tensorflow/serving/runtime_latency
    # tensorflow/serving: batching/batching_session.cc:59 queuing_latency
    server.post(f"{MODEL}:predict", {"instances": [1.0]})
    page = server.send("GET", "/monitoring/prometheus/metrics")[2].decode()
    assert f':tensorflow:serving:{name}_count{{model_name="{MODEL}"}}' in page
    first = f':tensorflow:serving:{name}_bucket{{le="10.0",model_name="{MODEL}"}}'
    assert first in page


def test_names_that_clients_make_up_are_not_counted_by(server):
    server.post("made-up-name:predict", {"instances": [1.0]})
    page = server.send("GET", "/monitoring/prometheus/metrics")[2].decode()
    assert "made-up-name" not in page
    assert 'request_count{model_name="",status="NOT_FOUND"}' in page


def _json(sent):
    import json

    status, _, body = sent
    return status, json.loads(body)
