"""Compose, Prometheus, KServe and Vertex AI take their files, the server its flags."""

import json
import re
from importlib import resources

import jsonschema
import pytest
import yaml

from tests.serving.deploy.conftest import MODEL
from tests.serving.deploy.deployment_files import objects_of, put, server_arguments
from tests.serving.deploy.peer_schemas import FLAGS, KSERVE, VERTEX


@pytest.fixture(scope="module")
def objects(deployed):
    return objects_of(deployed / "kubernetes")


@pytest.fixture(scope="module")
def compose(deployed):
    return yaml.safe_load((deployed / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def compose_schema():
    vendored = resources.files("check_jsonschema.builtin_schemas.vendor")
    return json.loads((vendored / "compose-spec.json").read_text("utf-8"))


def test_compose_takes_its_file(compose, compose_schema):
    jsonschema.validate(compose, compose_schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("services", "model", "volums"), []),
        (("services", "model", "ports"), "8501:8501"),
        (("services", "model", "healthcheck", "retries"), [3]),
        (("services", "model", "volumes", 0, "type"), None),
        (("services", "model", "deploy", "resources", "limits", "memory"), 1024),
    ],
)
def test_compose_refuses_what_is_wrong(compose, compose_schema, path, value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(put(compose, path, value), compose_schema)


def test_compose_opens_nothing_to_others(compose):
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "memory" in service["deploy"]["resources"]["limits"]
        for volume in service["volumes"]:
            assert isinstance(volume, str) or volume["read_only"] is True
    model = compose["services"]["model"]
    assert model["volumes"][0]["target"] == f"/models/{MODEL}"
    assert model["deploy"]["resources"]["limits"]["memory"] == "1024M"


def test_prometheus_asks_where_the_server_tells(deployed, compose):
    jobs = yaml.safe_load((deployed / "prometheus.yml").read_text())["scrape_configs"]
    (job,) = jobs
    told = re.search(r'path: "(.*)"', (deployed / "monitoring.config").read_text())[1]
    assert job["metrics_path"] == told
    (target,) = job["static_configs"][0]["targets"]
    service, port = target.split(":")
    assert f"--rest_api_port={port}" in compose["services"][service]["command"]
    pod = objects_of(deployed / "kubernetes")["deployment.yaml"]["spec"]["template"]
    annotations = pod["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == told
    assert annotations["prometheus.io/port"] == port


def test_kserve_takes_its_service(deployed):
    text = (deployed / "kserve.yaml").read_text()
    service = yaml.safe_load(text)
    jsonschema.validate(service, KSERVE)
    predictor = service["spec"]["predictor"]
    assert predictor["minReplicas"] <= predictor["maxReplicas"]
    claim = objects_of(deployed / "kubernetes")["model-volume.yaml"]["metadata"]["name"]
    assert predictor["model"]["storageUri"] == f"pvc://{claim}/{MODEL}"
    canary = yaml.safe_load(text.replace("# canaryTraffic", "canaryTraffic"))
    assert canary["spec"]["predictor"].pop("canaryTrafficPercent") == 10
    assert canary == service


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), MODEL),
        (("spec", "predictor", "minReplica"), 1),
        (("spec", "predictor", "scaleTarget"), "8"),
        (("spec", "predictor", "scaleMetric"), "requests"),
        (("spec", "predictor", "model", "modelFormat"), None),
        (("spec", "predictor", "model", "storageUri"), "/models"),
    ],
)
def test_kserve_refuses_what_is_wrong(deployed, path, value):
    service = yaml.safe_load((deployed / "kserve.yaml").read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(put(service, path, value), KSERVE)


def test_vertex_takes_its_upload(deployed):
    upload = json.loads((deployed / "vertex/upload.json").read_text())
    jsonschema.validate(upload, VERTEX)
    container = upload["model"]["containerSpec"]
    port = container["ports"][0]["containerPort"]
    assert f"--rest_api_port={port}" in container["args"]
    assert f"--model_name={MODEL}" in container["args"]
    # Vertex AI's own way to name a variable, which it fills in.
    assert "--model_base_path=$(AIP_STORAGE_URI)" in container["args"]
    assert container["predictRoute"] == f"/v1/models/{MODEL}:predict"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model", "containerSpec", "imageUri"), None),
        (("model", "containerSpec", "port"), 8501),
        (("model", "containerSpec", "ports"), [8501]),
        (("model", "containerSpec", "healthRoute"), "v1"),
        (("model", "artifactUri"), "/models"),
    ],
)
def test_vertex_refuses_what_is_wrong(deployed, path, value):
    upload = json.loads((deployed / "vertex/upload.json").read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(put(upload, path, value), VERTEX)


def test_the_server_knows_every_flag(deployed):
    given = server_arguments(deployed)
    assert given["compose"] == given["kubernetes"] == given["chart"]
    for place, arguments in given.items():
        for argument in arguments:
            flag = re.fullmatch(r"--(\w+)=\S+", argument)
            assert flag, (place, argument)
            assert flag[1] in FLAGS, (place, argument)


def test_every_file_that_the_server_is_given_is_there(deployed, compose, objects):
    mounted = {
        volume["target"]: volume["source"]
        for volume in compose["services"]["model"]["volumes"]
    }
    data = objects["configmap.yaml"]["data"]
    files = [
        argument.partition("=")[2]
        for argument in server_arguments(deployed)["kubernetes"]
        if "=/config/" in argument
    ]
    assert len(files) == len(data) == 3
    for file in files:
        name = file.removeprefix("/config/")
        assert data[name] == (deployed / mounted["/config"] / name).read_text()
