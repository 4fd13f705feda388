"""OpenAPI paths and schemas of the studio's API."""

from typing import Any

from transbeam.serving.server.openapi.responses import Json, answered, reference
from transbeam.serving.server.studio_api import (
    maps_api,
    model_views_api,
    run_results_api,
    try_api,
)
from transbeam.serving.server.studio_api.query_parameters import (
    describe_get,
    describe_post,
)
from transbeam.serving.studio import schemas
from transbeam.serving.studio.comparison import comparison_schemas

TAG = "the studio"
API = "/studio/api"
RUNS, INSPECT, COMPARE = f"{API}/runs", f"{API}/inspect", f"{API}/compare"

SCHEMAS: Json = {
    "studio.runs": schemas.RUNS,
    "studio.inspect.question": schemas.INSPECT_REQUEST,
    "studio.inspect.answer": schemas.INSPECTION,
    "studio.compare.question": comparison_schemas.COMPARE_REQUEST,
    "studio.compare.answer": comparison_schemas.COMPARISON,
    **model_views_api.SCHEMAS,
    **run_results_api.SCHEMAS,
    **try_api.SCHEMAS,
}
_REFUSALS = (400, 404, 408, 413, 415, 429, 500, 504)


def describe_studio() -> dict[str, Any]:
    """Returns the path items of the studio's API."""
    return {
        RUNS: describe_get(
            TAG,
            "studio_runs",
            "The runs of the page",
            answered("In their order", reference("schemas", "studio.runs")),
            refusals=(),
        ),
        INSPECT: describe_post(
            TAG,
            "inspect",
            "Tokens of a text, and numbers of each head",
            "Without the maps",
            *_REFUSALS,
        ),
        COMPARE: describe_post(
            TAG,
            "compare",
            "Predictions and heads of two models on one text",
            "Without the maps",
            *_REFUSALS,
        ),
        **maps_api.describe_maps(TAG),
        **model_views_api.describe_views(TAG),
        **run_results_api.describe_run_results(TAG),
        **try_api.describe_try(TAG),
    }
