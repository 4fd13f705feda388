"""Renders the files of a deployment from templates, and writes them."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.serving.deploy.exported_model import ExportedModel

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


# Kubernetes allows 63 characters, and it, Helm and KServe append to this name:
# `-models`, or `-predictor-` and the namespace.
_LONGEST_NAME = 40
# Words that YAML does not parse as strings.
_NO_STRINGS = {"y", "yes", "n", "no", "on", "off", "true", "false", "null"}


def deployment_files(
    exported: ExportedModel,
    *,
    model: str,
    image: str,
    request: Mapping[str, Any],
    to: Path,
) -> dict[str, str]:
    """Renders all files of a deployment.

    Args:
        exported: The exported model.
        model: The model's name for clients.
        image: The TF Serving image.
        request: The body of a sample request.
        to: The output folder; paths to the model are relative to it.

    Returns:
        Contents of the files, by path relative to the output folder.

    Raises:
        ConfigError: The path to the model contains characters that the files do not
            allow, or `object_name` rejects the model's name.
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
    exported: ExportedModel,
    model: str,
    image: str,
    request: Mapping[str, Any],
    to: Path,
) -> dict[str, str]:
    """Returns the values of the placeholders."""
    folder = os.path.relpath(exported.folder, to)
    if set(folder) & set('"$}\\\n'):
        raise ConfigError(
            f"{folder!r}: this path to the model cannot be written in "
            'docker-compose.yml; expected one without ", $, } and \\. Choose another '
            "with --run"
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


def _table(exported: ExportedModel) -> str:
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


def object_name(model: str) -> str:
    """Returns the name of a model's Kubernetes objects, a DNS label (RFC 1035).

    Letters become lowercase, each run of characters other than letters and digits
    becomes one `-`, and a `-` at the beginning or the end is dropped.

    Args:
        model: The model's name, such as `Tiny_BERT.v2`.

    Example:
    >>> object_name("Tiny_BERT.v2")
    'tiny-bert-v2'

    Raises:
        ConfigError: The Kubernetes name would begin with a digit, be too long, or be
            parsed by YAML as another type than string.
    """
    name = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    if not re.match("[a-z]", name) or name in _NO_STRINGS:
        raise ConfigError(
            f"{model!r} makes {name!r}, which cannot name a Service of Kubernetes: "
            "expected a letter first, and no word of YAML's such as `no`. Give another "
            "name with --name"
        )
    if len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{model!r} makes a name of {len(name)} characters for Kubernetes; "
            f"expected at most {_LONGEST_NAME}, as more is appended. Give a shorter "
            "one with --name"
        )
    return name


def write_files(files: Mapping[str, str], to: Path, *, overwrite: bool) -> list[str]:
    """Writes the files that do not exist or have other contents.

    Args:
        files: The contents of the files, by path relative to the output folder.
        to: The output folder; it is created if necessary.
        overwrite: Whether files with other contents are replaced.

    Returns:
        The paths that were written.

    Raises:
        ArtifactError: A file has other contents and may not be replaced, in which case
            no file is written; or a file cannot be written.
    """
    there = {path: _read(to / path) for path in files}
    wanted = [path for path, text in files.items() if there[path] != text]
    changed = [path for path in wanted if there[path] is not None]
    if changed and not overwrite:
        raise ArtifactError(
            f"{to}: {', '.join(changed)}: there with other contents: edited, or "
            "written for another export. Give another folder with --to, or replace "
            "them with --overwrite; nothing was written"
        )
    for path in wanted:
        file = to / path
        with writing(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, files[path])
    return wanted


def _read(file: Path) -> str | None:
    try:
        # A file that is not UTF-8 is not ours, and differs however it is decoded.
        return file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
