"""OpenAPI paths of a model: without a version, by version, and by label."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from transbeam.serving.server.openapi.methods import Method
from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
    refused,
)

# Methods of each version, by version number and name.
Versions = Mapping[int, Mapping[str, Method]]

_SUMMARIES = {
    "predict": "Asks a signature",
    "classify": "Classes and scores of examples",
    "regress": "Numbers for examples",
    "stream": "Has a text written, and tells it meanwhile",
}
_REFUSALS = (400, 404, 408, 413, 415, 429, 500, 503, 504)


@dataclass(frozen=True)
class _ModelPrefix:
    """A path prefix that addresses a model.

    Attributes:
        name: Name of the model.
        kind: `version`, `label`, or empty if the prefix addresses the latest version.
        choice: Schema of the path parameter.
        means: Versions that the prefix can refer to.
    """

    name: str
    kind: str
    choice: Json
    means: frozenset[int]

    @property
    def path(self) -> str:
        below = f"/{self.kind}s/{{{self.kind}}}" if self.kind else ""
        return f"/v1/models/{self.name}{below}"

    def item(self, verb: str, what: str, operation: Json) -> Json:
        """Returns the path item of a single operation."""
        operation_name = f"{what}_{self.kind}" if self.kind else what
        names = {"operationId": f"{operation_name}:{self.name}", "tags": [self.name]}
        item: Json = {verb: names | operation}
        if self.kind:
            item["parameters"] = [
                {
                    "name": self.kind,
                    "in": "path",
                    "required": True,
                    "schema": self.choice,
                }
            ]
        return item


def describe_paths(name: str, versions: Versions, labels: Mapping[str, int]) -> Json:
    """Returns all paths of a model.

    Args:
        name: Name of the model.
        versions: Methods of the available versions.
        labels: Versions by label, whether available or not.
    """
    found: Json = {}
    for prefix in _prefixes(name, versions, labels):
        found |= _metadata_paths(prefix)
        found |= _method_paths(prefix, versions)
    return found


def component(name: str, version: int, method: str, side: str) -> str:
    """Returns the component name of a method's request or response schema."""
    return f"{name}.{version}.{method}.{side}"


def _prefixes(
    name: str, versions: Iterable[int], labels: Mapping[str, int]
) -> Iterator[_ModelPrefix]:
    numbers = sorted(versions)
    yield _ModelPrefix(name, "", {}, frozenset(numbers[-1:]))
    if numbers:
        yield _ModelPrefix(
            name, "version", {"type": "integer", "enum": numbers}, frozenset(numbers)
        )
    answering = {label: of for label, of in labels.items() if of in numbers}
    if answering:
        yield _ModelPrefix(
            name,
            "label",
            {"type": "string", "enum": sorted(answering)},
            frozenset(answering.values()),
        )


def _metadata_paths(prefix: _ModelPrefix) -> Json:
    """Returns the paths for a model's status and metadata."""

    def item(what: str, summary: str, description: str) -> Json:
        schema = reference("schemas", what.title())
        responses = {"200": answered(description, schema), **refused(400, 404)}
        return prefix.item("get", what, {"summary": summary, "responses": responses})

    metadata = item("metadata", "Its signatures", "As TensorFlow has them")
    found = {f"{prefix.path}/metadata": metadata}
    # TF Serving ignores the label in a status request and returns all versions.
    if prefix.kind != "label":
        found[prefix.path] = item(
            "status", "The states of its versions", "The newest first"
        )
    return found


def _method_paths(
    prefix: _ModelPrefix, versions: Versions
) -> Iterator[tuple[str, Json]]:
    """Yields the paths of a model's API methods."""
    meant = {number: versions[number] for number in prefix.means}
    for name in _SUMMARIES:
        methods = {n: of[name] for n, of in sorted(meant.items()) if name in of}
        if not methods:
            continue
        latest = methods[max(methods)]
        request: Json = {"schema": _any(prefix, methods, name, "question")}
        if latest.examples:
            request["examples"] = dict(latest.examples)
        answer = _any(prefix, methods, name, "answer")
        operation = {
            "summary": _SUMMARIES[name],
            "requestBody": {"required": True, "content": {JSON: request}},
            "responses": {
                "200": answered("The answer", answer, latest.media_type),
                **refused(*_REFUSALS),
            },
        }
        yield f"{prefix.path}:{name}", prefix.item("post", name, operation)


def _any(prefix: _ModelPrefix, versions: Iterable[int], method: str, side: str) -> Json:
    """Returns a schema for the request or response of any of the given versions."""
    schemas = [
        reference("schemas", component(prefix.name, number, method, side))
        for number in versions
    ]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
