"""The description itself: OpenAPI 3.1, made for the models that are served right now.

https://spec.openapis.org/oas/v3.1.0.html. Versions have signatures of their own: a path
without a version is described by the latest one, and one with a version or a label by
all that it can mean.
"""

from collections.abc import Iterator, Mapping

from transbeam.configs.base.version import VERSION
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.catalog import Catalog
from transbeam.serving.server.monitoring import metrics
from transbeam.serving.server.openapi.methods import Method, methods_of
from transbeam.serving.server.openapi.paths import component, paths_of
from transbeam.serving.server.openapi.responses import (
    SCHEMAS,
    Json,
    answered,
    refused,
    shared_responses,
)
from transbeam.serving.server.protocol.rest_paths import ModelTarget

PATH = "/openapi.json"

_ABOUT = """\
TF Serving's REST API, for the models that this server has at this moment.

Numbers that are not finite are taken and told as `NaN`, `Infinity` and `-Infinity`,
which is no JSON. Whole numbers beyond 2^24 need a decimal point where float32 is
expected, and all lists at one place have one length. Bodies may come as gzip.
"""
_DOORS = {
    "/livez": ("alive", "Whether the process is there"),
    "/readyz": ("ready", "Whether every model answers"),
    metrics.PATH: ("metrics", "Prometheus's page"),
}
# Who balances the load has no token.
_OPEN = ("/livez", "/readyz")


def describe(catalog: Catalog, *, token: bool) -> Json:
    """Tells what can be asked.

    Args:
        catalog: The models.
        token: Whether clients must show one.

    Returns:
        The document.
    """
    paths: Json = {}
    schemas: Json = dict(SCHEMAS)
    for name in catalog.names():
        versions = dict(_versions(catalog, name))
        for number, methods in versions.items():
            for method in methods.values():
                sides = {"question": method.question, "answer": method.answer}
                for side, schema in sides.items():
                    schemas[component(name, number, method.name, side)] = schema
        paths |= paths_of(name, versions, catalog.labels(name))
    paths |= {path: _door(*told) for path, told in _DOORS.items()}
    components: Json = {"schemas": schemas, "responses": shared_responses()}
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "Transbeam", "version": VERSION, "description": _ABOUT},
        "tags": [{"name": name} for name in (*catalog.names(), "the server")],
        "paths": paths,
        "components": components,
    }
    if token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
        _demand_token(paths)
    return document


def _versions(
    catalog: Catalog, name: str
) -> Iterator[tuple[int, Mapping[str, Method]]]:
    """What each version that answers can be asked."""
    model = catalog.model(name)
    for number in model.available() if model else ():
        try:
            with catalog.use(ModelTarget(name, number)) as (_, loaded):
                methods = methods_of(loaded.signatures, loaded.questions)
                yield number, {method.name: method for method in methods}
        except StatusError:  # it was let go meanwhile
            continue


def _door(name: str, summary: str) -> Json:
    """For those who watch the server."""
    text = {"type": "string"}
    responses = {"200": answered("Yes", text, "text/plain")}
    if name == "ready":
        responses["503"] = answered("Not now", text, "text/plain")
    operation = {
        "operationId": name,
        "tags": ["the server"],
        "summary": summary,
        "responses": responses,
    }
    return {"get": operation}


def _demand_token(paths: Json) -> None:
    for path, item in paths.items():
        operation = item.get("get") or item["post"]
        if path in _OPEN:
            operation["security"] = []
        else:
            operation["responses"] |= refused(401)
