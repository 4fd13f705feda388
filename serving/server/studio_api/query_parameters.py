"""Requests of the studio's API: query parameters, and descriptions for OpenAPI."""

from typing import Any

from starlette.datastructures import QueryParams

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
    refused,
)

# Such as an offset in a file; JavaScript has no larger exact numbers.
MOST = 2**53


def read_text(queries: QueryParams, name: str, otherwise: str | None = None) -> str:
    """Returns the value of a parameter.

    Args:
        queries: The parameters.
        name: The parameter's name.
        otherwise: The value of one that is left out; None if it is required.

    Raises:
        StatusError: It is missing, or given more than once.
    """
    values = queries.getlist(name)
    if not values and otherwise is not None:
        return otherwise
    if len(values) != 1:
        raise invalid(f"expected one query parameter {name!r}, found {len(values)}")
    return values[0]


def read_count(queries: QueryParams, name: str, otherwise: int | None = None) -> int:
    """Returns the value of a parameter that is a whole number.

    Args:
        queries: The parameters.
        name: The parameter's name.
        otherwise: See `read_text`.

    Raises:
        StatusError: See `read_text`; or it is no whole number from 0.
    """
    text = read_text(queries, name, None if otherwise is None else str(otherwise))
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) < MOST):
        raise invalid(f"{name}: expected a whole number from 0, found {text[:40]!r}")
    return int(text)


def describe_get(
    tag: str,
    name: str,
    summary: str,
    found: Json,
    *parameters: Json,
    refusals: tuple[int, ...] = (400, 404),
) -> Json:
    """Returns the path item of a request with query parameters.

    Args:
        tag: The tag of the operation.
        name: Its id.
        summary: Its summary.
        found: The answer's description.
        parameters: Descriptions of `describe_parameter`.
        refusals: Status codes of errors.
    """
    return {
        "get": {
            "operationId": name,
            "tags": [tag],
            "summary": summary,
            "parameters": list(parameters),
            "responses": {"200": found, **refused(*refusals)},
        }
    }


def describe_parameter(
    name: str,
    description: str,
    schema: dict[str, Any] | None = None,
    *,
    required: bool | None = None,
) -> Json:
    """Returns the description of a query parameter.

    Args:
        name: The parameter's name.
        description: Its description.
        schema: Its schema; None for a text.
        required: Whether it is required; None if it is unless it has a default.
    """
    schema = schema or {"type": "string"}
    return {
        "name": name,
        "in": "query",
        "required": "default" not in schema if required is None else required,
        "description": description,
        "schema": schema,
    }


def describe_post(
    tag: str, name: str, summary: str, answer: str, *refusals: int
) -> Json:
    """Returns the path item of a request with a body of JSON.

    Args:
        tag: The tag of the operation.
        name: The name of the operation and of both schemas, without `studio`.
        summary: The summary of the operation.
        answer: The description of the answer.
        refusals: Status codes of errors.
    """
    question = reference("schemas", f"studio.{name}.question")
    found = answered(answer, reference("schemas", f"studio.{name}.answer"))
    return {
        "post": {
            "operationId": f"studio_{name}",
            "tags": [tag],
            "summary": summary,
            "requestBody": {"required": True, "content": {JSON: {"schema": question}}},
            "responses": {"200": found, **refused(*refusals)},
        }
    }
