"""ASGI application with TF Serving's REST API.

https://www.tensorflow.org/tfx/serving/api_rest. In addition to TF Serving's endpoints,
the application has `/livez` (the process is running), `/readyz` (every model is
available), `/openapi.json`, the metrics, and `/v1/models/NAME:stream` for streaming
text generation.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from http import HTTPStatus

from google.protobuf import json_format
from google.protobuf.message import Message
from grpc import StatusCode
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from tensorflow_serving.apis import get_model_metadata_pb2

from transbeam.serving.server.base.auth import AccessTokens, Right
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError, internal_error
from transbeam.serving.server.base.worker_thread import (
    LARGE_BODY,
    are_large,
    run_in_thread,
)
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.monitoring import metrics
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.openapi import document
from transbeam.serving.server.protocol.json_requests import read_predict
from transbeam.serving.server.protocol.json_responses import (
    predict_pieces,
    result_pieces,
)
from transbeam.serving.server.protocol.json_text import error_text
from transbeam.serving.server.protocol.rest_paths import (
    MetadataRequest,
    ModelRequest,
    ModelTarget,
    malformed,
    parse,
)
from transbeam.serving.server.protocol.tf_examples import read_examples
from transbeam.serving.server.request_handling.request_limits import check_rows
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.extension import RestExtension
from transbeam.serving.server.rest_api.request_body import (
    read_body,
    unless_gone,
)
from transbeam.serving.server.rest_api.server_sent_events import (
    EventStream,
    error_event,
    event,
)
from transbeam.serving.server.streaming.stream_requests import (
    StreamRequest,
    read_stream,
)

_JSON = "application/json"
# Retry-After of 503 responses, whose cause is temporary.
_LATER = {"Retry-After": "1"}
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}

_log = logging.getLogger("transbeam.serve")


def rest_app(
    service: Service,
    limits: Limits,
    tokens: AccessTokens,
    *,
    cors: bool = False,
    extensions: Sequence[RestExtension] = (),
) -> ASGIApp:
    """Creates the ASGI application.

    Args:
        service: Runs the requests.
        limits: Limits on requests.
        tokens: Accepted bearer tokens; `/livez` and `/readyz` require no token.
        cors: True to allow cross-origin requests.
        extensions: Further paths.
    """

    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        reason = service.why_not_ready()
        if reason is None:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"{reason}\n", 503, headers=_LATER)

    # Not a catch-all route: its pattern would not match a path with a line break.
    return Router(
        [Route("/livez", alive), Route("/readyz", ready)],
        redirect_slashes=False,
        default=RestApi(service, limits, tokens, cors=cors, extensions=extensions),
    )


class RestApi:
    """TF Serving's REST API as an ASGI application.

    Args:
        service: Runs the requests.
        limits: Limits on requests.
        tokens: Accepted bearer tokens.
        cors: True to allow cross-origin requests.
        extensions: Further paths.
    """

    def __init__(
        self,
        service: Service,
        limits: Limits,
        tokens: AccessTokens,
        *,
        cors: bool,
        extensions: Sequence[RestExtension] = (),
    ):
        self._service = service
        self._limits = limits
        self._tokens = tokens
        self._headers = dict(_CORS) if cors else {}
        if cors and tokens.rights:
            self._headers["Access-Control-Allow-Headers"] += ", Authorization"
        self._cors = cors
        self._extensions = extensions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = scope["raw_path"].decode("latin-1")
        extension = next(
            (each for each in self._extensions if path.startswith(each.prefix)), None
        )
        error_body = _error_body if extension is None else extension.error_body
        try:
            response = await self._response(request, path, extension)
        except StatusError as failure:
            response = _json(error_body(failure), failure.http)
            if failure.http == HTTPStatus.UNAUTHORIZED:
                response.headers["WWW-Authenticate"] = "Bearer"
            if failure.http == HTTPStatus.SERVICE_UNAVAILABLE:
                response.headers.update(_LATER)
        except Exception:
            _log.exception(
                "%s %s, request %s", request.method, request.url.path, current().id
            )
            response = _json(error_body(internal_error()), 500)
        response.headers.update(self._headers)
        asked = request.headers.get("access-control-request-headers")
        if self._cors and extension is not None and asked is not None:
            # Clients of extensions send headers of their own, as OpenAI's does.
            response.headers["Access-Control-Allow-Headers"] = asked
        await response(scope, receive, send)

    async def _response(
        self, request: Request, path: str, extension: RestExtension | None
    ) -> Response:
        for each in self._extensions:
            if (found := each.open_response(request, path)) is not None:
                return found
        if request.method == "OPTIONS" and self._cors:
            origin = request.headers.get("origin", "")
            if not origin.startswith(("http://", "https://")):
                raise malformed(request.method, request.url.path)
            return _json(b"")
        if extension is not None:
            self._tokens.check(request.headers.get("authorization"), Right.PREDICT)
            return await extension.response(request, path)
        return await self._own_response(request, path)

    async def _own_response(self, request: Request, path: str) -> Response:
        """Responds to a request for a path that is not of an extension."""
        authorization = request.headers.get("authorization")
        self._tokens.check(authorization)
        if path == metrics.PATH and request.method in ("GET", "HEAD"):
            self._tokens.check(authorization, Right.METRICS)
            return PlainTextResponse(self._service.metrics.page())
        if path == document.PATH and request.method in ("GET", "HEAD"):
            # It needs a token if the API does.
            found = await asyncio.to_thread(
                document.describe,
                self._service.catalog,
                token=bool(self._tokens.rights),
                extensions=self._extensions,
            )
            return _json(json.dumps(found, indent=1, ensure_ascii=False).encode())
        if not path.lower().startswith("/v1/"):
            raise StatusError(
                StatusCode.NOT_FOUND,
                f"there is nothing at {path}; see /v1/models/NAME",
            )
        match parse(request.method, path):
            case MetadataRequest(target, metadata):
                if metadata:
                    return _json(_metadata_text(self._service.metadata(target)))
                return _json(_as_json(self._service.status(target)))
            case ModelRequest() as question:
                self._tokens.check(authorization, Right.PREDICT)
                if question.method == "stream":
                    return await self._stream(question.target, request)
                with self._service.counted(
                    question.target.name, question.method.title(), "REST"
                ):
                    body = await read_body(request, self._limits)
                    # One deadline for reading, queueing, running and writing.
                    deadline = self._service.deadline(question.target.name)
                    return await unless_gone(
                        request.receive,
                        deadline.wait(self._answer(question, body, deadline)),
                    )
        raise malformed(request.method, path)

    async def _stream(self, target: ModelTarget, request: Request) -> Response:
        try:
            body = await read_body(request, self._limits)
        except StatusError:
            with self._service.counted(target.name, "Stream", "REST"):
                raise

        async def read(version: int, signature: ServableSignature) -> StreamRequest:
            return await run_in_thread(
                len(body) > LARGE_BODY, lambda: read_stream(body, signature)
            )

        parts = self._service.stream(target, "REST", read)
        # The first part is awaited before the headers, so errors get their own status.
        first = await unless_gone(request.receive, anext(parts))
        return EventStream(first, parts, event, error_event)

    async def _answer(
        self, question: ModelRequest, body: bytes, deadline: Deadline
    ) -> Response:
        target = question.target
        is_large = len(body) > LARGE_BODY
        if question.method != "predict":
            signature, examples = await run_in_thread(
                is_large, lambda: read_examples(body)
            )
            response = await self._service.run_examples(
                question.method, target, signature, examples, deadline
            )
            return _Pieces(result_pieces(response.result))
        parsed = await run_in_thread(
            is_large,
            lambda: read_predict(
                body,
                lambda name: self._service.taken(target, name),
                lambda rows: check_rows(rows, self._limits),
            ),
        )
        predicted = await self._service.predict(
            target, parsed.signature, parsed.inputs, (), deadline
        )
        pieces = await run_in_thread(
            are_large(predicted.outputs),
            lambda: predict_pieces(predicted.outputs, parsed.format),
        )
        return _Pieces(pieces)


def _error_body(failure: StatusError) -> bytes:
    return error_text(failure.message)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type=_JSON)


class _Pieces(Response):
    """A JSON response sent in chunks; other tasks can run between two chunks."""

    media_type = _JSON

    def __init__(self, pieces: Sequence[bytes]):
        super().__init__(headers={"Content-Length": str(sum(map(len, pieces)))})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for number, piece in enumerate(self._pieces, 1):
            more = number < len(self._pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": more})
            if more:
                await asyncio.sleep(0)


def _as_json(message: Message) -> bytes:
    return json_format.MessageToJson(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
        indent=1,
    ).encode()


def _metadata_text(
    response: get_model_metadata_pb2.GetModelMetadataResponse,
) -> bytes:
    """Formats metadata as TF Serving does, with signatures in `signature_def`."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return (
        b'{\n"model_spec":'
        + _as_json(response.model_spec)
        + b',\n"metadata": {"signature_def": '
        + _as_json(signatures)
        + b"}\n}\n"
    )
