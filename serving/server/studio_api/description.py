"""OpenAPI paths and schemas of the studio's API."""

from typing import Any

from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
    refused,
)
from transbeam.serving.server.studio_api import try_requests
from transbeam.serving.studio import schemas

TAG = "the studio"
API = "/studio/api"
RUNS, INSPECT = f"{API}/runs", f"{API}/inspect"
SERVE, ALTERNATIVES = f"{API}/serve", f"{API}/alternatives"
ATTENTION, OVERVIEW = f"{API}/attention", f"{API}/overview"
BYTES = "application/octet-stream"

SCHEMAS: Json = {
    "studio.runs": schemas.RUNS,
    "studio.inspect.question": schemas.INSPECT_REQUEST,
    "studio.inspect.answer": schemas.INSPECTION,
    "studio.serve.question": try_requests.SERVE_REQUEST,
    "studio.serve.answer": try_requests.SERVED,
    "studio.alternatives.question": try_requests.ALTERNATIVES_REQUEST,
    "studio.alternatives.answer": try_requests.ALTERNATIVES,
}

_BINARY: Json = {"type": "string", "contentMediaType": BYTES}


def describe_studio() -> dict[str, Any]:
    """Returns the path items of the studio's API."""
    question = reference("schemas", "studio.inspect.question")
    return {
        RUNS: {
            "get": _operation(
                "studio_runs",
                "The runs of the page",
                answered("In their order", reference("schemas", "studio.runs")),
            )
        },
        INSPECT: {
            "post": {
                **_operation(
                    "studio_inspect",
                    "Tokens of a text, and numbers of each head",
                    answered(
                        "Without the maps",
                        reference("schemas", "studio.inspect.answer"),
                    ),
                    *(400, 404, 408, 413, 415, 429, 500, 504),
                ),
                "requestBody": {
                    "required": True,
                    "content": {JSON: {"schema": question}},
                },
            }
        },
        SERVE: {
            "post": _posted(
                "serve",
                "Loads the export of a run, unless it is loaded",
                "The model that answers at /v1/models",
                *(400, 404, 408, 413, 500, 503, 504),
            )
        },
        ALTERNATIVES: {
            "post": _posted(
                "alternatives",
                "The most probable tokens at the places of generated tokens",
                "For each generated token",
                *(400, 404, 408, 413, 429, 500, 503, 504),
            )
        },
        ATTENTION: {
            "get": {
                **_operation(
                    "studio_attention",
                    "The attention maps of a layer",
                    answered(
                        "float16, little-endian: heads, queries, keys", _BINARY, BYTES
                    ),
                    *(400, 404),
                ),
                "parameters": [
                    _query("key", "The key of an inspection"),
                    _query("layer", "The path of a layer"),
                ],
            }
        },
        OVERVIEW: {
            "get": {
                **_operation(
                    "studio_overview",
                    "Small attention maps of all layers",
                    answered(
                        "float16, little-endian: layers, heads, and the rows and "
                        "columns that the inspection names",
                        _BINARY,
                        BYTES,
                    ),
                    *(400, 404),
                ),
                "parameters": [
                    _query("key", "The key of an inspection"),
                    _query("group", "The name of a group of layers"),
                ],
            }
        },
    }


def _operation(name: str, summary: str, found: Json, *refusals: int) -> Json:
    return {
        "operationId": name,
        "tags": [TAG],
        "summary": summary,
        "responses": {"200": found, **refused(*refusals)},
    }


def _posted(name: str, summary: str, answer: str, *refusals: int) -> Json:
    question = reference("schemas", f"studio.{name}.question")
    found = answered(answer, reference("schemas", f"studio.{name}.answer"))
    return {
        **_operation(f"studio_{name}", summary, found, *refusals),
        "requestBody": {"required": True, "content": {JSON: {"schema": question}}},
    }


def _query(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }
