"""Generates the OpenAPI 3.1 document for the models that are currently served.

https://spec.openapis.org/oas/v3.1.0.html. Each version has its own signatures: a path
without a version is described by the latest version, and a path with a version or a
label by the union of all versions that it can refer to.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from transbeam.configs.base.version import VERSION
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.catalog import Catalog
from transbeam.serving.server.models.versions import Model
from transbeam.serving.server.monitoring import metrics
from transbeam.serving.server.openapi.methods import Method, describe_methods
from transbeam.serving.server.openapi.paths import component, describe_paths
from transbeam.serving.server.openapi.responses import (
    SCHEMAS,
    Json,
    answered,
    refused,
    shared_responses,
)

PATH = "/openapi.json"

_ABOUT = """\
TF Serving's REST API, for the models that this server has at this moment.

Numbers that are not finite are read and written as `NaN`, `Infinity` and `-Infinity`,
which is no JSON. Whole numbers beyond 2^24 need a decimal point where float32 is
expected, and all lists at one place have one length. Bodies may come as gzip.
"""
_ENDPOINTS = {
    "/livez": ("alive", "Whether the process is there"),
    "/readyz": ("ready", "Whether every model answers"),
    metrics.PATH: ("metrics", "Prometheus's page"),
}
# Load balancers have no token.
_OPEN = ("/livez", "/readyz")


class PathDescription(Protocol):
    """Further paths of the server; see `RestExtension`."""

    def paths(self) -> Mapping[str, Json]: ...

    def schemas(self) -> Mapping[str, Json]: ...


def describe(
    catalog: Catalog, *, token: bool, extensions: Sequence[PathDescription] = ()
) -> Json:
    """Creates the OpenAPI document.

    Args:
        catalog: The models.
        token: True if clients need a bearer token.
        extensions: Further paths of the server.

    Returns:
        The document as a JSON object.
    """
    paths: Json = {}
    schemas: Json = dict(SCHEMAS)
    for model in catalog.models():
        name, versions = model.name, dict(_versions(model))
        for number, methods in versions.items():
            for method in methods.values():
                sides = {"question": method.question, "answer": method.answer}
                for side, schema in sides.items():
                    schemas[component(name, number, method.name, side)] = schema
        paths |= describe_paths(name, versions, catalog.labels(name))
    tags = [*catalog.names(), "the server"]
    for extension in extensions:
        more = extension.paths()
        paths |= more
        schemas |= extension.schemas()
        operations = chain.from_iterable(item.values() for item in more.values())
        tags += dict.fromkeys(tag for each in operations for tag in each["tags"])
    paths |= {path: _endpoint(*entry) for path, entry in _ENDPOINTS.items()}
    components: Json = {"schemas": schemas, "responses": shared_responses()}
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "Transbeam", "version": VERSION, "description": _ABOUT},
        "tags": [{"name": name} for name in tags],
        "paths": paths,
        "components": components,
    }
    if token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
        for path, item in paths.items():
            operation = item.get("get") or item["post"]
            if path in _OPEN:
                operation["security"] = []
            else:
                # Extensions have errors of their own form.
                operation["responses"] = refused(401) | operation["responses"]
    return document


def _versions(model: Model) -> Iterator[tuple[int, Mapping[str, Method]]]:
    """Yields the available versions of a model and their methods by name."""
    for number in model.available():
        # A version that was unloaded in the meantime is left out.
        with suppress(StatusError), model.use(number) as (_, loaded):
            methods = describe_methods(loaded.signatures, loaded.questions)
            yield number, {method.name: method for method in methods}


def _endpoint(name: str, summary: str) -> Json:
    """Describes the GET operation of a health or metrics endpoint."""
    text = {"type": "string"}
    responses = {"200": answered("Yes", text, "text/plain")}
    if name == "ready":
        responses["503"] = answered("Not now", text, "text/plain")
    return {
        "get": {
            "operationId": name,
            "tags": ["the server"],
            "summary": summary,
            "responses": responses,
        }
    }
