"""Kubernetes takes each object, by `kubectl` and by Helm, and they find each other."""

import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from tests.serving.deploy.conftest import MODEL, NAME
from tests.serving.deploy.deployment_files import objects_of, put, rendered_chart

# The oldest of which each object is held against the schemas, and the newest.
KUBERNETES = ("1.27", "1.37")
FILES = [
    "autoscaler.yaml",
    "configmap.yaml",
    "copy-model.yaml",
    "deployment.yaml",
    "disruption-budget.yaml",
    "model-volume.yaml",
    "service.yaml",
]


@pytest.fixture(scope="module")
def objects(deployed):
    return objects_of(deployed / "kubernetes")


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("file", FILES)
def test_kubernetes_takes_each_object(objects, file, version):
    kubernetes_validate.validate(objects[file], version, strict=True)


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("deployment.yaml", (*CONTAINER, "readinessProb"), {}),
        ("deployment.yaml", (*CONTAINER, "args", 0), 8500),
        ("deployment.yaml", (*CONTAINER, "livenessProbe", "tcpSocket", "port"), None),
        ("deployment.yaml", ("spec", "selector"), None),
        ("deployment.yaml", (*POD, "securityContext", "runAsUser"), "nobody"),
        ("autoscaler.yaml", ("spec", "maxReplicas"), None),
        ("autoscaler.yaml", ("spec", "metrics", 0, "resource", "target"), None),
        ("service.yaml", ("spec", "ports", 0, "port"), "rest"),
        ("configmap.yaml", ("data", "model.config"), 1),
        ("disruption-budget.yaml", ("spec", "maxUnavailabe"), 1),
        ("model-volume.yaml", ("spec", "accessModes"), "ReadWriteMany"),
    ],
)
def test_kubernetes_refuses_what_is_wrong(objects, file, path, value):
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            put(objects[file], path, value), KUBERNETES[-1], strict=True
        )


def test_the_chart_makes_the_same_objects(deployed, objects):
    found = rendered_chart(deployed / "chart", NAME)
    assert found == {file: objects[file] for file in found}
    assert set(objects) - set(found) == {"copy-model.yaml"}


def test_the_chart_heeds_its_values(deployed):
    changed = {"model": "other", "image": "mine:1", "cpus": 7, "memoryMi": 123}
    changed |= {"storageGi": 9, "minReplicas": 3, "maxReplicas": 5}
    values = yaml.safe_load((deployed / "chart/values.yaml").read_text())
    assert set(changed) == set(values)
    found = rendered_chart(deployed / "chart", "release", **changed)
    for file, tree in found.items():
        kubernetes_validate.validate(tree, KUBERNETES[-1], strict=True)
        assert tree["metadata"]["name"].startswith("release"), file
    text = yaml.safe_dump(found)
    for value in ("/models/other", "mine:1", "123Mi", "9Gi", "parallelism=7"):
        assert value in text
    scale = found["autoscaler.yaml"]["spec"]
    assert (scale["minReplicas"], scale["maxReplicas"]) == (3, 5)
    chart = yaml.safe_load((deployed / "chart/Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2"
    assert {"name", "version", "appVersion"} <= set(chart)
    assert all(isinstance(value, str) for value in chart.values())


def test_kubernetes_objects_find_each_other(objects):
    deployment = objects["deployment.yaml"]["spec"]
    pod = deployment["template"]
    labels = pod["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        objects["service.yaml"]["spec"]["selector"],
        objects["disruption-budget.yaml"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    target = objects["autoscaler.yaml"]["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    assert "replicas" not in deployment
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    claim = objects["model-volume.yaml"]["metadata"]["name"]
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim
    config = objects["configmap.yaml"]["metadata"]["name"]
    assert volumes["config"]["configMap"]["name"] == config
    container = pod["spec"]["containers"][0]
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    copying = objects["copy-model.yaml"]["spec"]
    assert copying["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
    assert copying["securityContext"]["runAsUser"] == 65532
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": 8500, "rest": 8501}
    for port in objects["service.yaml"]["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]


def test_a_pod_may_do_little_and_is_asked_well(objects):
    pod = objects["deployment.yaml"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for tree in (pod, objects["copy-model.yaml"]["spec"]):
        (container,) = tree["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert tree["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    metadata = {"path": f"/v1/models/{MODEL}/metadata", "port": "rest"}
    assert container["readinessProbe"]["httpGet"] == metadata
    assert container["startupProbe"]["httpGet"] == metadata
    assert container["livenessProbe"]["tcpSocket"] == {"port": "grpc"}
    resources = container["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"] == "1024Mi"
    asleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    timeout = [a for a in container["args"] if a.startswith("--rest_api_timeout")]
    answering = int(timeout[0].partition("=")[2]) / 1000
    assert pod["terminationGracePeriodSeconds"] == asleep + answering


def test_kustomize_takes_all_but_the_pod_that_copies(deployed, objects):
    folder = deployed / "kubernetes"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == set(objects) - {"copy-model.yaml"}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
def test_kubectl_builds_what_is_applied(deployed, objects):
    built = subprocess.run(
        ["kubectl", "kustomize", str(deployed / "kubernetes")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {tree["kind"]: tree for tree in yaml.safe_load_all(built.stdout)}
    expected = {tree["kind"]: tree for tree in objects.values()}
    del expected["Pod"]
    assert found == expected
