"""The part of the studio's API that runs' answers are tried with."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.openapi.responses import Json
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.request_body import read_body, unless_gone
from transbeam.serving.server.studio_api import try_requests
from transbeam.serving.server.studio_api.query_parameters import describe_post
from transbeam.serving.server.studio_api.served_exports import ServedExports
from transbeam.serving.server.studio_api.token_alternatives import TokenAlternatives
from transbeam.serving.server.studio_api.try_requests import (
    AlternativesRequest,
    read_run,
)
from transbeam.serving.studio.run_facts import RunFacts

_API = "/studio/api"
SERVE, ALTERNATIVES = f"{_API}/serve", f"{_API}/alternatives"
# A client that waits for an export to be loaded asks again after this time.
_LOADING_SECONDS = 10.0

SCHEMAS: Json = {
    "studio.serve.question": try_requests.SERVE_REQUEST,
    "studio.serve.answer": try_requests.SERVED,
    "studio.alternatives.question": try_requests.ALTERNATIVES_REQUEST,
    "studio.alternatives.answer": try_requests.ALTERNATIVES,
}


class TryApi:
    """Loads the exports of runs, and finds alternatives to generated tokens.

    The answers themselves come from the REST API below `/v1/models`.

    Args:
        runs: The runs.
        settings: The server's settings.
        service: The server's models.

    Attributes:
        exports: The exports of the runs.
    """

    def __init__(
        self, runs: Sequence[RunFacts], settings: ServerSettings, service: Service
    ):
        self.exports = ServedExports(runs, service.catalog, loads=settings.studio_loads)
        self._alternatives = TokenAlternatives(runs, service)
        self._service = service
        self._limits = settings.limits
        self._serving: dict[str, asyncio.Future[str | None]] = {}

    async def serve(self, request: Request) -> dict[str, Any]:
        """Loads the export of a run, unless it is loaded.

        Args:
            request: The request.

        Raises:
            StatusError: There is no such run, or its export cannot be loaded.
        """
        current().api = "Serve"
        run = read_run(await read_body(request, self._limits))
        # Further requests wait for the same loading, which one that leaves goes on.
        work = self._serving.get(run)
        if work is None:
            work = asyncio.ensure_future(asyncio.to_thread(self.exports.serve, run))
            self._serving[run] = work
            work.add_done_callback(lambda done: self._served(run, done))
        waiting = asyncio.wait({work}, timeout=_LOADING_SECONDS)
        done, _ = await unless_gone(request.receive, waiting)
        return {"run": run, "served_as": work.result() if done else None}

    async def alternatives(self, request: Request) -> Any:
        """Finds the most probable tokens at the places of generated ones.

        Args:
            request: The request.

        Raises:
            StatusError: There is no such run, its export is not loaded, or the model
                generates no texts.
        """
        current().api = "Alternatives"
        body = await read_body(request, self._limits)
        question = AlternativesRequest.from_json(body)
        name = self.exports.served_name(question.run)
        current().model, current().rows = name, 1
        deadline = self._service.deadline(name)
        work = self._alternatives.find(name, question, deadline)
        return await unless_gone(request.receive, deadline.wait(work))

    def _served(self, run: str, work: "asyncio.Future[str | None]") -> None:
        del self._serving[run]
        if not work.cancelled():
            work.exception()  # nobody may be waiting for it anymore


def describe_try(tag: str) -> dict[str, Any]:
    """Returns the path items of this part of the API.

    Args:
        tag: The tag of the operations.
    """
    return {
        SERVE: describe_post(
            tag,
            "serve",
            "Loads the export of a run, unless it is loaded",
            "The model that answers at /v1/models",
            *(400, 404, 408, 413, 500, 503, 504),
        ),
        ALTERNATIVES: describe_post(
            tag,
            "alternatives",
            "The most probable tokens at the places of generated tokens",
            "For each generated token",
            *(400, 404, 408, 413, 429, 500, 503, 504),
        ),
    }
