"""The studio's page and its JSON API as an extension of the REST API."""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from grpc import StatusCode
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.protocol.json_text import error_text
from transbeam.serving.server.request_handling.request_limits import check_amounts
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.request_body import read_body, unless_gone
from transbeam.serving.server.studio_api import (
    maps_api,
    model_views_api,
    run_results_api,
    try_api,
)
from transbeam.serving.server.studio_api.description import (
    API,
    COMPARE,
    INSPECT,
    RUNS,
    SCHEMAS,
    describe_studio,
)
from transbeam.serving.server.studio_api.questions import (
    read_comparison,
    read_inspection,
)
from transbeam.serving.server.studio_api.run_results_api import answer_results
from transbeam.serving.server.studio_api.try_api import TryApi
from transbeam.serving.studio.comparison.comparisons import Comparisons
from transbeam.serving.studio.inspections import Inspections
from transbeam.serving.studio.model_views import ModelViews
from transbeam.serving.studio.page_files import HEADERS, PAGE, read_page_files
from transbeam.serving.studio.run_facts import find_runs
from transbeam.serving.studio.run_results.run_results import RunResults
from transbeam.serving.studio.studio_error import StudioError

FOLDER = "/studio"
# Texts that wait for the one that is inspected.
_MOST_WAITING = 8
_READS = ("GET", "HEAD")
_PRIVATE = {"Cache-Control": "no-store"}

_Found = TypeVar("_Found")


class StudioApi:
    """The studio of some runs; see `RestExtension`.

    The page itself has no secrets and needs no token, because a browser has none to
    send when it opens a page; the page asks for the token that its API needs.

    Args:
        settings: The server's settings, with the runs' folders and the limits.
        service: The server's models.

    Raises:
        UserError: A run is missing or not trained.
    """

    prefix = f"{API}/"

    def __init__(self, settings: ServerSettings, service: Service):
        runs = find_runs(settings.studio_runs)
        self._inspections = Inspections(runs)
        self._views = ModelViews(self._inspections)
        self._comparisons = Comparisons(self._inspections)
        self._results = RunResults(self._inspections.models.facts)
        self._names = {facts.name for facts in runs}
        self._try = TryApi(runs, settings, service)
        self._limits = settings.limits
        self._files = read_page_files()
        self._waiting = 0

    def open_response(self, request: Request, path: str) -> Response | None:
        if request.method not in _READS:
            return None
        if path == FOLDER:
            return RedirectResponse(f"{FOLDER.rpartition('/')[2]}/", headers=HEADERS)
        if not path.startswith(f"{FOLDER}/"):
            return None
        found = self._files.get(path.removeprefix(f"{FOLDER}/") or PAGE)
        if found is None:
            return None
        return Response(found[0], media_type=found[1], headers=HEADERS)

    async def response(self, request: Request, path: str) -> Response:
        queries = request.query_params
        match request.method, path:
            case "POST", _ if path == INSPECT:
                return await self._inspect(request)
            case "POST", _ if path == COMPARE:
                return await self._compare(request)
            case "POST", _ if path == try_api.SERVE:
                return _json(await self._try.serve(request))
            case "POST", _ if path == try_api.ALTERNATIVES:
                return _json(await self._try.alternatives(request))
            case (("GET" | "HEAD"), _) if path == RUNS:
                return _json(await asyncio.to_thread(self._describe_runs))
            case (("GET" | "HEAD"), _) if path in maps_api.PATHS:
                work = partial(maps_api.read_maps, self._inspections, path, queries)
                content = await _found(work)
                return Response(content, media_type=maps_api.BYTES, headers=_PRIVATE)
            case (("GET" | "HEAD"), _) if path in model_views_api.PATHS:
                view = model_views_api.prepare_view(self._views, path, queries)
                return _json(await self._compute(request, view))
            case (("GET" | "HEAD"), _) if path in run_results_api.PATHS:
                read = partial(answer_results, self._results, path, queries)
                found = await _found(read)
                return found if isinstance(found, Response) else _json(found)
        raise StatusError(
            StatusCode.NOT_FOUND,
            f"there is no {request.method} {path}; see /openapi.json",
        )

    def error_body(self, failure: StatusError) -> bytes:
        return error_text(failure.message)

    def paths(self) -> Mapping[str, Any]:
        return describe_studio()

    def schemas(self) -> Mapping[str, Any]:
        return SCHEMAS

    def _describe_runs(self) -> dict[str, Any]:
        models = self._inspections.models
        return {
            "runs": [
                {**models.facts(name).as_json(), **self._try.exports.facts(name)}
                for name in models.runs
            ]
        }

    async def _inspect(self, request: Request) -> Response:
        current().api = "Inspect"
        form, texts = read_inspection(await read_body(request, self._limits))
        self._check_texts(form.run, texts)
        work = partial(self._inspections.inspect, form, texts)
        return _json(await self._compute(request, work))

    async def _compare(self, request: Request) -> Response:
        current().api = "Compare"
        a, b, texts = read_comparison(await read_body(request, self._limits))
        self._check_texts(a.run, texts)
        work = partial(self._comparisons.compare, a, b, texts)
        return _json(await self._compute(request, work))

    def _check_texts(self, run: str, texts: Mapping[str, str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts.values()]
        check_amounts({"texts": np.array(encoded, object)}, self._limits)
        current().model = run if run in self._names else ""
        current().rows = 1

    async def _compute(self, request: Request, work: Callable[[], _Found]) -> _Found:
        """Runs a model, unless too many requests wait for one."""
        if self._waiting >= _MOST_WAITING:
            raise StatusError(
                StatusCode.RESOURCE_EXHAUSTED,
                f"{self._waiting} requests are waiting for a model; send the request "
                "again later",
            )
        deadline = Deadline.after(self._limits.answer_seconds)
        self._waiting += 1
        try:
            return await unless_gone(request.receive, deadline.wait(_found(work)))
        finally:
            self._waiting -= 1


async def _found(work: Callable[[], _Found]) -> _Found:
    """Runs a function in a thread; converts the studio's errors."""
    try:
        return await asyncio.to_thread(work)
    except StudioError as error:
        code = StatusCode.INVALID_ARGUMENT
        if error.is_missing:
            code = StatusCode.NOT_FOUND
        raise StatusError(code, error.message) from None


def _json(found: Any) -> Response:
    body = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Response(
        body.encode("utf-8", "replace"), media_type="application/json", headers=_PRIVATE
    )
