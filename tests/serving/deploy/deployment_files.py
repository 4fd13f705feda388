"""The written files, parsed as the programs that use them do."""

import copy
import re

import yaml

EXPRESSION = re.compile(r"{{ (?:\.Release\.(Name)|\.Values\.(\w+)) }}")


def objects_of(folder):
    """The Kubernetes objects of a folder, by their files."""
    return {
        file.name: yaml.safe_load(file.read_text())
        for file in sorted(folder.glob("*.yaml"))
        if file.name != "kustomization.yaml"
    }


def rendered_chart(chart, release, **changed):
    """The objects that Helm makes of a chart, if this has simple expressions alone."""
    values = yaml.safe_load((chart / "values.yaml").read_text()) | changed

    def filled(match):
        return release if match[1] else str(values[match[2]])

    texts = {
        file.name: EXPRESSION.sub(filled, file.read_text())
        for file in sorted((chart / "templates").iterdir())
    }
    assert not any("{{" in text for text in texts.values())
    return {name: yaml.safe_load(text) for name, text in texts.items()}


def container_of(objects):
    """The one container of the Deployment."""
    pod = objects["deployment.yaml"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return container


def server_arguments(folder):
    """Arguments of `tensorflow_model_server`, by file."""
    compose = yaml.safe_load((folder / "docker-compose.yml").read_text())
    pods = {
        "kubernetes": objects_of(folder / "kubernetes"),
        "chart": rendered_chart(folder / "chart", "release"),
    }
    kserve = yaml.safe_load((folder / "kserve.yaml").read_text())
    vertex = yaml.safe_load((folder / "vertex/upload.json").read_text())
    return {
        "compose": compose["services"]["model"]["command"],
        **{name: container_of(objects)["args"] for name, objects in pods.items()},
        "kserve": kserve["spec"]["predictor"]["model"]["args"],
        "vertex": vertex["model"]["containerSpec"]["args"],
    }


def put(tree, path, value):
    """A copy of a tree with another value in one place; None takes it away."""
    tree = copy.deepcopy(tree)
    *above, last = path
    inner = tree
    for key in above:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return tree
