"""Parses REST API paths.

https://www.tensorflow.org/tfx/serving/api_rest. As in TF Serving, paths are
case-insensitive except for the final method name or `metadata`, and percent-encoding
such as `%2f` is decoded only in the names of models and labels.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from transbeam.serving.server.base.status import StatusError, invalid

_FLAGS = re.IGNORECASE | re.ASCII
_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
# `stream` is an extension: TF Serving has no streaming text generation.
_QUESTION = re.compile(_MODEL + r":((?-i:classify|regress|predict|stream))", _FLAGS)
_LOOK = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(?:/(metadata))?",
    _FLAGS,
)
_LARGEST_VERSION = 2**63 - 1


@dataclass(frozen=True)
class ModelTarget:
    """The addressed model: its latest version unless a version or label is given."""

    name: str
    version: int | None = None
    label: str | None = None


@dataclass(frozen=True)
class ModelRequest:
    """A POST request: runs a method of a model."""

    target: ModelTarget
    method: str


@dataclass(frozen=True)
class MetadataRequest:
    """A GET request: the status or the metadata of a model.

    As in TF Serving, `/METADATA` in capitals returns the status.
    """

    target: ModelTarget
    metadata: bool


def parse(method: str, path: str) -> ModelRequest | MetadataRequest:
    """Parses a request line.

    Args:
        method: `GET` or `POST`.
        path: The path as received, not decoded.

    Raises:
        StatusError: The path is not part of the API.

    Example:
    >>> request = parse("POST", "/v1/models/demo/versions/3:predict")
    >>> request.target, request.method
    (ModelTarget(name='demo', version=3, label=None), 'predict')
    """
    if method == "POST" and (match := _QUESTION.fullmatch(path)):
        return ModelRequest(_target(*match.group(1, 2, 3)), match.group(4))
    if method == "GET" and (match := _LOOK.fullmatch(path)):
        if not match.group(1):
            raise invalid("Missing model name in request.")
        return MetadataRequest(
            _target(*match.group(1, 2, 3)), match.group(4) == "metadata"
        )
    raise malformed(method, path)


def malformed(method: str, path: str) -> StatusError:
    """Creates the error for a request that is not part of the API."""
    return invalid(f"Malformed request: {method} {path}")


def _target(name: str, version: str | None, label: str | None) -> ModelTarget:
    number = None
    if version is not None:
        digits = version.lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > _LARGEST_VERSION:
            raise invalid(f"Failed to convert version: {version} to numeric.")
        number = int(digits)
    return ModelTarget(
        _decoded(name), number, None if label is None else _decoded(label)
    )


def _decoded(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")
