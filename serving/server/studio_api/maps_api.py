"""The part of the studio's API that sends attention maps, as bytes."""

from typing import Any

from starlette.datastructures import QueryParams

from transbeam.serving.server.openapi.responses import Json, answered
from transbeam.serving.server.studio_api.query_parameters import (
    describe_get,
    describe_parameter,
    read_text,
)
from transbeam.serving.studio.inspections import Inspections

_API = "/studio/api"
ATTENTION, OVERVIEW, FLOW = f"{_API}/attention", f"{_API}/overview", f"{_API}/flow"
PATHS = (ATTENTION, OVERVIEW, FLOW)
BYTES = "application/octet-stream"
_BINARY: Json = {"type": "string", "contentMediaType": BYTES}


def read_maps(inspections: Inspections, path: str, queries: QueryParams) -> bytes:
    """Answers a request for one of `PATHS`.

    Args:
        inspections: The inspections.
        path: The path of the request.
        queries: Its query parameters.

    Raises:
        StatusError: A query parameter is missing.
        StudioError: There is no such inspection, layer or group.
    """
    key = read_text(queries, "key")
    if path == ATTENTION:
        return inspections.layer_maps(key, read_text(queries, "layer"))
    group = read_text(queries, "group")
    if path == OVERVIEW:
        less = read_text(queries, "less") if "less" in queries else None
        return inspections.small_maps(key, group, less)
    return inspections.flow_maps(key, group)


def describe_maps(tag: str) -> dict[str, Any]:
    """Returns the path items of this part of the API.

    Args:
        tag: The tag of the operations.
    """
    key = describe_parameter("key", "The key of an inspection")
    return {
        ATTENTION: describe_get(
            tag,
            "studio_attention",
            "The attention maps of a layer",
            answered("float16, little-endian: heads, queries, keys", _BINARY, BYTES),
            key,
            describe_parameter("layer", "The path of a layer"),
        ),
        OVERVIEW: describe_get(
            tag,
            "studio_overview",
            "Small attention maps of all layers",
            answered(
                "float16, little-endian: layers, heads, and the rows and columns that "
                "the inspection names",
                _BINARY,
                BYTES,
            ),
            key,
            describe_parameter("group", "The name of a group of layers"),
            describe_parameter(
                "less",
                "The key of another inspection, whose maps are subtracted: of each "
                "square the largest absolute difference",
                required=False,
            ),
        ),
        FLOW: describe_get(
            tag,
            "studio_flow",
            "Where the vectors of each layer come from",
            answered(
                "float16, little-endian: layers, tokens, and the tokens of the layer "
                "before; means over heads, with the residual connection",
                _BINARY,
                BYTES,
            ),
            key,
            describe_parameter("group", "The name of a group of self-attention layers"),
        ),
    }
