"""The studio's page and its JSON API as an extension of the REST API."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from grpc import StatusCode
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.request_handling.request_limits import check_amounts
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.request_body import read_body, unless_gone
from transbeam.serving.server.studio_api.description import (
    ALTERNATIVES,
    API,
    ATTENTION,
    BYTES,
    INSPECT,
    OVERVIEW,
    RUNS,
    SCHEMAS,
    SERVE,
    describe_studio,
)
from transbeam.serving.server.studio_api.served_exports import ServedExports
from transbeam.serving.server.studio_api.token_alternatives import TokenAlternatives
from transbeam.serving.server.studio_api.try_requests import (
    AlternativesRequest,
    read_run,
)
from transbeam.serving.studio.inspections import Inspections
from transbeam.serving.studio.page_files import HEADERS, PAGE, read_page_files
from transbeam.serving.studio.run_facts import find_runs
from transbeam.serving.studio.studio_error import StudioError

FOLDER = "/studio"
# Texts that wait for the one that is inspected.
_MOST_WAITING = 8
# After this time a request is told that the export is still being loaded.
_LOADING_SECONDS = 10.0
_READS = ("GET", "HEAD")
_PRIVATE = {"Cache-Control": "no-store"}

_Found = TypeVar("_Found")


class StudioApi:
    """The studio of some runs; see `RestExtension`.

    The page itself has no secrets and needs no token, because a browser has none to
    send when it opens a page; the page asks for the token that its API needs.

    Args:
        settings: The server's settings, with the folders of the runs.
        service: Runs the requests for the models of the server.

    Raises:
        UserError: A run is missing or not trained.
    """

    prefix = f"{API}/"

    def __init__(self, settings: ServerSettings, service: Service):
        runs = find_runs(settings.studio_runs)
        self._runs = runs
        self._inspections = Inspections(runs)
        self._exports = ServedExports(
            runs, service.catalog, loads=settings.studio_loads
        )
        self._service = service
        self._alternatives = TokenAlternatives(runs, service)
        self._names = {facts.name for facts in runs}
        self._limits = settings.limits
        self._files = read_page_files()
        self._waiting = 0
        self._serving: dict[str, asyncio.Future[str | None]] = {}

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
        match path:
            case _ if path == RUNS and request.method in _READS:
                return _json(await asyncio.to_thread(self._described_runs))
            case _ if path == SERVE and request.method == "POST":
                return await self._serve(request)
            case _ if path == ALTERNATIVES and request.method == "POST":
                return await self._token_alternatives(request)
            case _ if path == INSPECT and request.method == "POST":
                return await self._inspect(request)
            case _ if path == ATTENTION and request.method in _READS:
                key, layer = _queries(request, "key", "layer")
                return await _bytes(lambda: self._inspections.layer_maps(key, layer))
            case _ if path == OVERVIEW and request.method in _READS:
                key, group = _queries(request, "key", "group")
                return await _bytes(lambda: self._inspections.small_maps(key, group))
        raise StatusError(
            StatusCode.NOT_FOUND,
            f"there is no {request.method} {path}; see /openapi.json",
        )

    def paths(self) -> Mapping[str, Any]:
        return describe_studio()

    def schemas(self) -> Mapping[str, Any]:
        return SCHEMAS

    def _described_runs(self) -> dict[str, Any]:
        return {
            "runs": [
                {**facts.as_json(), **self._exports.facts(facts.name)}
                for facts in self._runs
            ]
        }

    async def _serve(self, request: Request) -> Response:
        current().api = "Serve"
        run = read_run(await read_body(request, self._limits))
        # Further requests wait for the same loading, which one that leaves goes on.
        work = self._serving.get(run)
        if work is None:
            work = asyncio.ensure_future(asyncio.to_thread(self._exports.serve, run))
            self._serving[run] = work
            work.add_done_callback(lambda done: self._served(run, done))
        waiting = asyncio.wait({work}, timeout=_LOADING_SECONDS)
        done, _ = await unless_gone(request.receive, waiting)
        name = work.result() if done else None
        return _json({"run": run, "served_as": name})

    def _served(self, run: str, work: "asyncio.Future[str | None]") -> None:
        del self._serving[run]
        if not work.cancelled():
            work.exception()  # nobody may be waiting for it anymore

    async def _token_alternatives(self, request: Request) -> Response:
        current().api = "Alternatives"
        body = await read_body(request, self._limits)
        question = AlternativesRequest.from_json(body)
        name = self._exports.served_name(question.run)
        current().model, current().rows = name, 1
        deadline = self._service.deadline(name)
        work = self._alternatives.find(name, question, deadline)
        return _json(await unless_gone(request.receive, deadline.wait(work)))

    async def _inspect(self, request: Request) -> Response:
        current().api = "Inspect"
        run, texts = _read_question(await read_body(request, self._limits))
        encoded = [text.encode("utf-8", "replace") for text in texts.values()]
        check_amounts({"texts": np.array(encoded, object)}, self._limits)
        if self._waiting >= _MOST_WAITING:
            raise StatusError(
                StatusCode.RESOURCE_EXHAUSTED,
                f"{self._waiting} texts are waiting to be inspected; send the request "
                "again later",
            )
        current().model = run if run in self._names else ""
        current().rows = 1
        deadline = Deadline.after(self._limits.answer_seconds)
        self._waiting += 1
        try:
            work = _found(lambda: self._inspections.inspect(run, texts))
            return _json(await unless_gone(request.receive, deadline.wait(work)))
        finally:
            self._waiting -= 1


def _read_question(body: bytes) -> tuple[str, dict[str, str]]:
    """Reads the body of an inspection request.

    Raises:
        StatusError: The body is not JSON, or has other members.

    Example:
    >>> _read_question(b'{"run": "demo", "texts": {"text": "It is."}}')
    ('demo', {'text': 'It is.'})
    """
    try:
        question = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {error}") from None
    match question:
        case {"run": str(run), "texts": dict(texts), **rest} if not rest and all(
            isinstance(text, str) for text in texts.values()
        ):
            return run, texts
    raise invalid(
        'the body is not of the form {"run": "NAME", "texts": {"text": "..."}}, see '
        "/openapi.json"
    )


def _queries(request: Request, *names: str) -> list[str]:
    """Returns the values of required query parameters."""
    found = []
    for name in names:
        values = request.query_params.getlist(name)
        if len(values) != 1:
            raise invalid(f"expected one query parameter {name!r}, found {len(values)}")
        found.append(values[0])
    return found


async def _found(work: Callable[[], _Found]) -> _Found:
    """Runs a function in a thread; converts the studio's errors."""
    try:
        return await asyncio.to_thread(work)
    except StudioError as error:
        code = StatusCode.INVALID_ARGUMENT
        if error.is_missing:
            code = StatusCode.NOT_FOUND
        raise StatusError(code, error.message) from None


async def _bytes(work: Callable[[], bytes]) -> Response:
    return Response(await _found(work), media_type=BYTES, headers=_PRIVATE)


def _json(found: Any) -> Response:
    body = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Response(
        body.encode("utf-8", "replace"), media_type="application/json", headers=_PRIVATE
    )
