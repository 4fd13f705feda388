"""OpenAPI components for status, metadata and error responses."""

from http import HTTPStatus
from typing import Any

from tensorflow.core.protobuf import error_codes_pb2

from transbeam.serving.server.models.versions import State
from transbeam.serving.server.openapi.methods import EXAMPLES
from transbeam.serving.server.openapi.tensor_schemas import (
    BASE64,
    TEXT,
    Schema,
    nested,
    object_schema,
)

Json = dict[str, Any]

JSON = "application/json"

_REFUSALS = {
    400: "The request is invalid or not for this signature, or the model rejects it",
    401: "The access token is missing or wrong",
    404: "There is no such model or version, or it is not available yet",
    408: "The body did not arrive in time",
    413: "The body is larger than the server's limit",
    415: "Content-Encoding is neither gzip nor identity",
    429: "Too many requests are waiting; send the request again later",
    500: "The model failed, or the server has a bug: see its log",
    503: "The server is stopping, or the version is being unloaded; send it again",
    504: "There was no response in time",
}
_STATUS = object_schema(
    {
        "error_code": {"enum": list(error_codes_pb2.Code.keys())},
        "error_message": {"type": "string"},
    }
)
SCHEMAS: dict[str, Schema] = {
    "Error": object_schema({"error": {"type": "string"}}),
    "Base64": BASE64,
    "Text": TEXT,
    **EXAMPLES,
    "Status": object_schema(
        {
            "model_version_status": nested(
                object_schema(
                    {
                        "version": {"type": "string"},
                        "state": {"enum": [state.name for state in State]},
                        "status": _STATUS,
                    }
                ),
                [None],
            )
        }
    ),
    "Metadata": object_schema(
        {
            "model_spec": object_schema(
                {
                    "name": {"type": "string"},
                    "version": {"type": "string"},
                    "signature_name": {"type": "string"},
                }
            ),
            "metadata": object_schema(
                {
                    "signature_def": object_schema(
                        {
                            "signature_def": {
                                "description": "TensorFlow's `SignatureDef`s by name",
                                "type": "object",
                                "additionalProperties": {"type": "object"},
                            }
                        }
                    )
                }
            ),
        }
    ),
}


def reference(kind: str, name: str) -> Json:
    """Returns a reference to a component.

    Example:
    >>> reference("schemas", "Error")
    {'$ref': '#/components/schemas/Error'}
    """
    return {"$ref": f"#/components/{kind}/{name}"}


def refused(*codes: int) -> Json:
    """Returns references to the error responses with the given status codes."""
    return {str(code): reference("responses", _name(code)) for code in codes}


def answered(description: str, schema: Schema, media_type: str = JSON) -> Json:
    """Returns an OpenAPI response with one media type."""
    return {"description": description, "content": {media_type: {"schema": schema}}}


def shared_responses() -> Json:
    """Returns all error responses as components."""
    error = reference("schemas", "Error")
    return {_name(code): answered(why, error) for code, why in _REFUSALS.items()}


def _name(code: int) -> str:
    """Returns the component name of a status code.

    Example:
    >>> _name(404)
    'NotFound'
    """
    return HTTPStatus(code).phrase.title().replace(" ", "")
