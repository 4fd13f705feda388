"""The studio's page and its JSON API as an extension of the REST API."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from grpc import StatusCode
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.request_handling.request_limits import check_amounts
from transbeam.serving.server.rest_api.request_body import read_body, unless_gone
from transbeam.serving.server.studio_api.description import (
    API,
    ATTENTION,
    BYTES,
    COMPARE,
    INSPECT,
    OVERVIEW,
    RUNS,
    SCHEMAS,
    describe_studio,
)
from transbeam.serving.server.studio_api.questions import (
    read_comparison,
    read_inspection,
)
from transbeam.serving.studio.comparisons import Comparisons
from transbeam.serving.studio.inspections import Inspections
from transbeam.serving.studio.page_files import HEADERS, PAGE, read_page_files
from transbeam.serving.studio.run_facts import find_runs
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
        folders: The folders of the runs; if empty, all trained runs below `runs/`.
        limits: Limits on requests.

    Raises:
        UserError: A run is missing or not trained.
    """

    prefix = f"{API}/"

    def __init__(self, folders: Sequence[Path], limits: Limits):
        runs = find_runs(folders)
        self._inspections = Inspections(runs)
        self._comparisons = Comparisons(self._inspections)
        self._names = {facts.name for facts in runs}
        self._limits = limits
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
        match path:
            case _ if path == RUNS and request.method in _READS:
                return _json(self._inspections.runs())
            case _ if path == INSPECT and request.method == "POST":
                return await self._inspect(request)
            case _ if path == COMPARE and request.method == "POST":
                return await self._compare(request)
            case _ if path == ATTENTION and request.method in _READS:
                key, layer = _queries(request, "key", "layer")
                return await _bytes(lambda: self._inspections.layer_maps(key, layer))
            case _ if path == OVERVIEW and request.method in _READS:
                key, group = _queries(request, "key", "group")
                less = None
                if "less" in request.query_params:
                    [less] = _queries(request, "less")
                return await _bytes(
                    lambda: self._inspections.small_maps(key, group, less)
                )
        raise StatusError(
            StatusCode.NOT_FOUND,
            f"there is no {request.method} {path}; see /openapi.json",
        )

    def paths(self) -> Mapping[str, Any]:
        return describe_studio()

    def schemas(self) -> Mapping[str, Any]:
        return SCHEMAS

    async def _inspect(self, request: Request) -> Response:
        current().api = "Inspect"
        form, texts = read_inspection(await read_body(request, self._limits))
        return await self._computed(
            request, form.run, texts, lambda: self._inspections.inspect(form, texts)
        )

    async def _compare(self, request: Request) -> Response:
        current().api = "Compare"
        a, b, texts = read_comparison(await read_body(request, self._limits))
        return await self._computed(
            request, a.run, texts, lambda: self._comparisons.compare(a, b, texts)
        )

    async def _computed(
        self,
        request: Request,
        run: str,
        texts: Mapping[str, str],
        work: Callable[[], Any],
    ) -> Response:
        """Checks texts against the limits, and computes in a thread."""
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
            found = deadline.wait(_found(work))
            return _json(await unless_gone(request.receive, found))
        finally:
            self._waiting -= 1


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
