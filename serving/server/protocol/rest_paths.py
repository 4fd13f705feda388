"""Paths of the REST API to what is asked of which model.

https://www.tensorflow.org/tfx/serving/api_rest. TF Serving matches them whatever their
case, but for the last word, and decodes `%2f` and its like in the names of models and
labels only.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from transbeam.serving.server.base.status import StatusError, invalid

_FLAGS = re.IGNORECASE | re.ASCII
_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
# `stream` is ours: TF Serving has no API for texts while they are written.
_QUESTION = re.compile(_MODEL + r":((?-i:classify|regress|predict|stream))", _FLAGS)
_LOOK = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(?:/(metadata))?",
    _FLAGS,
)
_LARGEST_VERSION = 2**63 - 1


@dataclass(frozen=True)
class ModelTarget:
    """Which model is meant: the latest version, unless one or a label is named."""

    name: str
    version: int | None = None
    label: str | None = None


@dataclass(frozen=True)
class ModelRequest:
    """A POST: something to be answered by a model."""

    target: ModelTarget
    method: str


@dataclass(frozen=True)
class MetadataRequest:
    """A GET: what is known of a model, its status or its signatures.

    Of `/METADATA` TF Serving tells the status.
    """

    target: ModelTarget
    metadata: bool


def parse(method: str, path: str) -> ModelRequest | MetadataRequest:
    """Reads a request line.

    Args:
        method: `GET` or `POST`.
        path: As it came, not decoded.

    Raises:
        Failure: It is none of the API's.

    Example:
    >>> parse("POST", "/v1/models/demo/versions/3:predict")
    ModelRequest(target=ModelTarget(name='demo', version=3, label=None),
    method='predict')
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
    """A request that is none of the API's."""
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
