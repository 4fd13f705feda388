"""The part of the studio's API that runs the model once more for an inspection."""

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams

from transbeam.serving.server.openapi.responses import Json, answered, reference
from transbeam.serving.server.studio_api.query_parameters import (
    describe_get,
    describe_parameter,
    read_count,
    read_text,
)
from transbeam.serving.studio import schemas
from transbeam.serving.studio.model_views import ModelViews

_API = "/studio/api"
STAGES, QUERY_KEY = f"{_API}/stages", f"{_API}/query-key"
PREDICTIONS, CONTRIBUTIONS = f"{_API}/predictions", f"{_API}/contributions"
PATHS = (STAGES, QUERY_KEY, PREDICTIONS, CONTRIBUTIONS)
_REFUSALS = (400, 404, 429, 500, 504)
_COUNT: Json = {"type": "integer", "minimum": 0}

SCHEMAS: Json = {
    "studio.stages": schemas.STAGES,
    "studio.query_key": schemas.QUERY_KEY,
    "studio.predictions": schemas.PREDICTIONS,
    "studio.contributions": schemas.CONTRIBUTIONS,
}


def prepare_view(
    views: ModelViews, path: str, queries: QueryParams
) -> Callable[[], dict[str, Any]]:
    """Prepares the answer to a request for one of `PATHS`.

    Args:
        views: The views.
        path: The path of the request.
        queries: Its query parameters.

    Returns:
        A function that computes the answer; it raises `StudioError`.

    Raises:
        StatusError: A query parameter is missing or no number.
    """
    key = read_text(queries, "key")
    if path == STAGES:
        return partial(views.stages, key)
    if path == PREDICTIONS:
        return partial(views.predictions, key)
    if path == CONTRIBUTIONS:
        position = read_count(queries, "position")
        token, against = (
            read_count(queries, name) if name in queries else None
            for name in ("token", "against")
        )
        return partial(views.contributions, key, position, token, against)
    layer = read_text(queries, "layer")
    head, query, attended = (
        read_count(queries, name) for name in ("head", "query", "attended")
    )
    return partial(views.query_key, key, layer, head, query, attended)


def describe_views(tag: str) -> dict[str, Any]:
    """Returns the path items of this part of the API.

    Args:
        tag: The tag of the operations.
    """
    key = describe_parameter("key", "The key of an inspection")

    def describe(
        path: str, name: str, summary: str, order: str, *parameters: Json
    ) -> dict[str, Any]:
        found = answered(order, reference("schemas", f"studio.{name}"))
        return {
            path: describe_get(
                tag,
                f"studio_{name}",
                summary,
                found,
                key,
                *parameters,
                refusals=_REFUSALS,
            )
        }

    def count(name: str, description: str, *, required: bool = True) -> Json:
        return describe_parameter(name, description, _COUNT, required=required)

    return {
        **describe(
            STAGES,
            "stages",
            "A text's way through the model, with shapes",
            "In the order of computation",
        ),
        **describe(
            QUERY_KEY,
            "query_key",
            "What each dimension adds to the score of two tokens",
            "By dimension",
            describe_parameter("layer", "The path of a layer"),
            count("head", "The head"),
            count("query", "Index of the attending token"),
            count("attended", "Index of the attended token"),
        ),
        **describe(
            PREDICTIONS,
            "predictions",
            "What every layer would predict: the logit lens",
            "By layer and token",
        ),
        **describe(
            CONTRIBUTIONS,
            "contributions",
            "What each part of a decoder adds to a logit",
            "In the order of computation",
            count("position", "The token after which one is predicted"),
            count("token", "The id of the predicted token", required=False),
            count("against", "The id that it is compared with", required=False),
        ),
    }
