"""OpenAPI paths and schemas of the studio's API."""

from typing import Any

from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
    refused,
)
from transbeam.serving.studio import schemas

TAG = "the studio"
API = "/studio/api"
RUNS, INSPECT = f"{API}/runs", f"{API}/inspect"
ATTENTION, OVERVIEW = f"{API}/attention", f"{API}/overview"
FLOW, STAGES, QUERY_KEY = f"{API}/flow", f"{API}/stages", f"{API}/query-key"
PREDICTIONS, CONTRIBUTIONS = f"{API}/predictions", f"{API}/contributions"
BYTES = "application/octet-stream"

SCHEMAS: Json = {
    "studio.runs": schemas.RUNS,
    "studio.inspect.question": schemas.INSPECT_REQUEST,
    "studio.inspect.answer": schemas.INSPECTION,
    "studio.predictions": schemas.PREDICTIONS,
    "studio.contributions": schemas.CONTRIBUTIONS,
    "studio.stages": schemas.STAGES,
    "studio.query_key": schemas.QUERY_KEY,
}

# Refusals of what is computed with the model.
_COMPUTED = (400, 404, 429, 500, 504)
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
        FLOW: {
            "get": {
                **_operation(
                    "studio_flow",
                    "Where the vectors of each layer come from",
                    answered(
                        "float16, little-endian: layers, tokens, and the tokens of the "
                        "layer before; means over heads, with the residual connection",
                        _BINARY,
                        BYTES,
                    ),
                    *(400, 404),
                ),
                "parameters": [
                    _query("key", "The key of an inspection"),
                    _query("group", "The name of a group of self-attention layers"),
                ],
            }
        },
        STAGES: {
            "get": {
                **_operation(
                    "studio_stages",
                    "A text's way through the model, with shapes",
                    answered(
                        "In the order of computation",
                        reference("schemas", "studio.stages"),
                    ),
                    *_COMPUTED,
                ),
                "parameters": [_query("key", "The key of an inspection")],
            }
        },
        QUERY_KEY: {
            "get": {
                **_operation(
                    "studio_query_key",
                    "What each dimension adds to the score of two tokens",
                    answered("By dimension", reference("schemas", "studio.query_key")),
                    *_COMPUTED,
                ),
                "parameters": [
                    _query("key", "The key of an inspection"),
                    _query("layer", "The path of a layer"),
                    _number("head", "The head", True),
                    _number("query", "Index of the attending token", True),
                    _number("attended", "Index of the attended token", True),
                ],
            }
        },
        PREDICTIONS: {
            "get": {
                **_operation(
                    "studio_predictions",
                    "What every layer would predict: the logit lens",
                    answered(
                        "By layer and token", reference("schemas", "studio.predictions")
                    ),
                    *_COMPUTED,
                ),
                "parameters": [_query("key", "The key of an inspection")],
            }
        },
        CONTRIBUTIONS: {
            "get": {
                **_operation(
                    "studio_contributions",
                    "What each part of a decoder adds to a logit",
                    answered(
                        "In the order of computation",
                        reference("schemas", "studio.contributions"),
                    ),
                    *_COMPUTED,
                ),
                "parameters": [
                    _query("key", "The key of an inspection"),
                    _number("position", "The token after which one is predicted", True),
                    _number("token", "The id of the predicted token", False),
                    _number("against", "The id that it is compared with", False),
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


def _query(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }


def _number(name: str, description: str, required: bool) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": {"type": "integer", "minimum": 0},
    }
