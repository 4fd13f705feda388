"""The part of the studio's API that shows what a run's stages wrote."""

from typing import Any, get_args

from starlette.datastructures import QueryParams
from starlette.responses import Response

from transbeam.serving.base.run_records import Split
from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.openapi.responses import Json, answered, reference
from transbeam.serving.server.studio_api.query_parameters import (
    MOST,
    describe_get,
    describe_parameter,
    read_count,
    read_text,
)
from transbeam.serving.studio.run_results import schemas
from transbeam.serving.studio.run_results.result_files import HEADERS
from transbeam.serving.studio.run_results.run_results import RunResults
from transbeam.serving.studio.run_results.sample_records import (
    LAST_RECORD,
    MOST_RECORDS,
)

_API = "/studio/api"
RESULTS, LOG = f"{_API}/run", f"{_API}/log"
RECORDS, FILE = f"{_API}/records", f"{_API}/file"
PATHS = (RESULTS, LOG, RECORDS, FILE)
_SPLITS: tuple[Split, ...] = get_args(Split)

SCHEMAS: Json = {
    "studio.run": schemas.RUN_RESULTS,
    "studio.log": schemas.LOG,
    "studio.records": schemas.SAMPLES,
}


def answer_results(
    results: RunResults, path: str, queries: QueryParams
) -> Response | dict[str, Any]:
    """Answers a request for one of `PATHS`.

    Args:
        results: The results of the runs.
        path: The path of the request.
        queries: Its query parameters.

    Returns:
        A JSON object, or the response with a file.

    Raises:
        StatusError: A query parameter is missing or out of range.
        StudioError: There is no such run or file, or it is damaged.
    """
    run = read_text(queries, "run")
    if path == RESULTS:
        return results.results(run)
    if path == LOG:
        file = read_text(queries, "file", "")
        return results.log(run, read_count(queries, "after", 0), file)
    if path == RECORDS:
        first, count = read_count(queries, "first", 0), read_count(queries, "count", 5)
        return results.records(run, _split(queries), first, count)
    content, media_type = results.file(run, read_text(queries, "path"))
    return Response(content, media_type=media_type, headers=HEADERS)


def describe_run_results(tag: str) -> dict[str, Any]:
    """Returns the path items of this part of the API.

    Args:
        tag: The tag of the operations.
    """
    run = describe_parameter("run", "A run's name", {"type": "string"})
    offset = {"type": "integer", "minimum": 0, "maximum": MOST - 1, "default": 0}
    first = {**offset, "maximum": LAST_RECORD}
    count = {"type": "integer", "minimum": 1, "maximum": MOST_RECORDS, "default": 5}
    return {
        RESULTS: describe_get(
            tag,
            "studio_run",
            "The results of a run's stages",
            answered(
                "Each panel has what was found, or an error if its files are damaged",
                reference("schemas", "studio.run"),
            ),
            run,
        ),
        LOG: describe_get(
            tag,
            "studio_log",
            "Lines of a training's log",
            answered("The lines after a byte", reference("schemas", "studio.log")),
            run,
            describe_parameter("after", "`next` of the last answer", offset),
            describe_parameter(
                "file",
                "`file` of the last answer; if the log is another one, all lines come",
                {"type": "string", "default": ""},
            ),
        ),
        RECORDS: describe_get(
            tag,
            "studio_records",
            "Records as people read them",
            answered("In their order", reference("schemas", "studio.records")),
            run,
            describe_parameter("split", "The split", {"enum": list(_SPLITS)}),
            describe_parameter("first", "Number of the first", first),
            describe_parameter("count", "Number of records", count),
        ),
        FILE: describe_get(
            tag,
            "studio_file",
            "A picture or a report of a run",
            {
                "description": "The file, to be saved",
                "content": {
                    kind: {"schema": {}}
                    for kind in ("text/html", "image/png", "image/svg+xml")
                },
            },
            run,
            describe_parameter(
                "path", "A path that `run` or its analysis names", {"type": "string"}
            ),
        ),
    }


def _split(queries: QueryParams) -> Split:
    text = read_text(queries, "split")
    for split in _SPLITS:
        if split == text:
            return split
    raise invalid(f"split: expected {' or '.join(_SPLITS)}, found {text[:40]!r}")
