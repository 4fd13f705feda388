"""Renders the files of a deployment from templates."""

import json
import os
import shlex
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.deploy.exported_model import Exported
from transbeam.serving.deploy.kubernetes_names import object_name

# Of each replica. The numbers of parallel batches and threads depend on it.
CPUS = 2
BATCH_SIZES = (1, 2, 4, 8, 16, 32)
MIN_REPLICAS, MAX_REPLICAS = 2, 6

# Templates in this folder are rendered twice: with values to `kubernetes/`, and with
# Helm's placeholders to `chart/templates/`, so that the two cannot diverge.
KUBERNETES = "kubernetes/"
NOT_IN_CHART = ("kustomization.yaml", "copy-model.yaml")
IN_CHART = {
    "name": "{{ .Release.Name }}",
    "model": "{{ .Values.model }}",
    "image": "{{ .Values.image }}",
    "cpus": "{{ .Values.cpus }}",
    "memory": "{{ .Values.memoryMi }}",
    "memory_sum": "As much as values.yaml says",
    "storage": "{{ .Values.storageGi }}",
    "min_replicas": "{{ .Values.minReplicas }}",
    "max_replicas": "{{ .Values.maxReplicas }}",
}
# They are embedded in the ConfigMap, too.
SERVERS_FILES = {
    "model_config": "model.config",
    "batching_parameters": "batching_parameters.txt",
    "monitoring_config": "monitoring.config",
}


def deployment_files(
    exported: Exported, *, model: str, image: str, request: Mapping[str, Any], to: Path
) -> dict[str, str]:
    """Renders all files of a deployment.

    Args:
        exported: The exported model.
        model: The model's name for clients.
        image: The TF Serving image.
        request: The body of a first request.
        to: The output folder; paths to the model are relative to it.

    Returns:
        Contents by path relative to that folder.

    Raises:
        ConfigError: The model's name or its path cannot be written in these files.
    """
    values = _values(exported, model, image, request, to)
    templates = _read_templates(
        resources.files("transbeam.serving.deploy") / "templates"
    )
    files = {"request.json": values["request"] + "\n"}
    for path, template in templates.items():
        files[path] = _filled(template, values, templates)
        name = path.removeprefix(KUBERNETES)
        if name != path and name not in NOT_IN_CHART:
            in_chart = _filled(template, values | IN_CHART, templates)
            files[f"chart/templates/{name}"] = in_chart
    return files


def _values(
    exported: Exported, model: str, image: str, request: Mapping[str, Any], to: Path
) -> dict[str, str]:
    """Returns the values of the placeholders."""
    folder = os.path.relpath(exported.folder, to)
    if set(folder) & set('"$}\\\n'):
        raise ConfigError(
            f"{folder!r}: this path to the model cannot stand in docker-compose.yml; "
            'expected one without ", $, } and \\. Choose another with --run'
        )
    values: dict[str, Any] = {
        "batch_size": BATCH_SIZES[-1],
        "batch_sizes": "\n".join(f"allowed_batch_sizes: {n}" for n in BATCH_SIZES),
        "cpus": CPUS,
        "export": folder,
        "export_word": shlex.quote(folder),
        "image": image,
        # Its name in another registry, where it would have another digest.
        "image_name": image.partition("@")[0].rpartition("/")[2],
        "max_replicas": MAX_REPLICAS,
        "megabytes": f"{exported.size / 1e6:,.1f}",
        "memory": exported.memory,
        "memory_sum": exported.memory_sum,
        "min_replicas": MIN_REPLICAS,
        "model": model,
        "name": object_name(model),
        "next_version": exported.version + 1,
        "request": json.dumps(request, indent=2, ensure_ascii=False),
        "signatures": _table(exported),
        "storage": exported.storage,
        "tensorflow": exported.tensorflow,
        "threads": 2 * BATCH_SIZES[-1],
        "version": exported.version,
    }
    return {name: str(value) for name, value in values.items()}


def _table(exported: Exported) -> str:
    def listed(types: Mapping[str, str]) -> str:
        return ", ".join(
            f"`{name}` {type_.removeprefix('DT_').lower()}"
            for name, type_ in types.items()
        )

    return "\n".join(
        f"| `{name}` | {listed(found.inputs)} | {listed(found.outputs)} |"
        for name, found in exported.signatures.items()
    )


def _read_templates(folder: Traversable, path: str = "") -> dict[str, str]:
    """Reads the templates of a folder and its subfolders, by relative path."""
    found: dict[str, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found |= _read_templates(entry, f"{path}{entry.name}/")
        else:
            found[path + entry.name] = entry.read_text("utf-8")
    return found


def _filled(
    template: str, values: Mapping[str, str], templates: Mapping[str, str]
) -> str:
    embedded = {
        word: indent(Template(templates[file]).substitute(values).rstrip(), "    ")
        for word, file in SERVERS_FILES.items()
    }
    return Template(template).substitute(values, **embedded)
