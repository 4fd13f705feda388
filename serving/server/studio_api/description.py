"""OpenAPI paths and schemas of the studio's API."""

from typing import Any

from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
    refused,
)
from transbeam.serving.server.studio_api import (
    maps_api,
    model_views_api,
    run_results_api,
)
from transbeam.serving.server.studio_api.query_parameters import describe_get
from transbeam.serving.studio import schemas

TAG = "the studio"
API = "/studio/api"
RUNS, INSPECT = f"{API}/runs", f"{API}/inspect"

SCHEMAS: Json = {
    "studio.runs": schemas.RUNS,
    "studio.inspect.question": schemas.INSPECT_REQUEST,
    "studio.inspect.answer": schemas.INSPECTION,
    **model_views_api.SCHEMAS,
    **run_results_api.SCHEMAS,
}


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
        INSPECT: {
            "post": {
                "operationId": "studio_inspect",
                "tags": [TAG],
                "summary": "Tokens of a text, and numbers of each head",
                "requestBody": {
                    "required": True,
                    "content": {
                        JSON: {
                            "schema": reference("schemas", "studio.inspect.question")
                        }
                    },
                },
                "responses": {
                    "200": answered(
                        "Without the maps",
                        reference("schemas", "studio.inspect.answer"),
                    ),
                    **refused(400, 404, 408, 413, 415, 429, 500, 504),
                },
            }
        },
        **maps_api.describe_maps(TAG),
        **model_views_api.describe_views(TAG),
        **run_results_api.describe_run_results(TAG),
    }
