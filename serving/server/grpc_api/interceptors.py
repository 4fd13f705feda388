"""gRPC interceptors: request ids, and timeouts of clients that keep the server waiting.

gRPC itself waits without a limit for a request to arrive and for a response to be read
if the client set no deadline and its connection is alive. Canceling the task that
serves a call resets its stream.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import grpc

from transbeam.serving.server.monitoring.request_ids import Over, recorded

_Refused = Callable[[str], None]
_Unary = Callable[[Any, Any], Awaitable[Any]]
_Stream = Callable[[Any, Any], Any]


def _wrapped(
    handler: Any,
    unary: Callable[[_Unary], _Unary],
    streaming: Callable[[_Stream], _Stream],
) -> Any:
    """Wraps the handler of a call with one request.

    The handler of reflection, a bidirectional stream that addresses no model, is not
    wrapped.

    Args:
        handler: A handler of gRPC; None for an unknown method.
        unary: Wraps a function that returns one response.
        streaming: Wraps a function that yields responses.
    """
    if handler is None or not (handler.unary_unary or handler.unary_stream):
        return handler
    if handler.unary_unary:
        behave = unary(handler.unary_unary)
        make = grpc.unary_unary_rpc_method_handler
    else:
        behave = streaming(handler.unary_stream)
        make = grpc.unary_stream_rpc_method_handler
    return make(behave, handler.request_deserializer, handler.response_serializer)


class _Timer:
    """Timer: cancels the task that serves a call unless stopped before it expires."""

    def __init__(self, refused: _Refused):
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float, reason: str) -> None:
        self.stop()
        self._handle = self._loop.call_later(seconds, self._give_up, reason)

    def stop(self, *_: Any) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _give_up(self, reason: str) -> None:
        self._refused(reason)
        assert self._task is not None
        self._task.cancel()


class PatientCalls(grpc.aio.ServerInterceptor):
    """Interceptor that cancels calls whose client keeps the server waiting.

    Args:
        request_seconds: Time in which a request must arrive.
        unread_seconds: Time in which a client must read some of a response.
        refused: Called with the reason of each cancellation.
    """

    def __init__(
        self, request_seconds: float, unread_seconds: float, refused: _Refused
    ):
        self._request_seconds = request_seconds
        self._unread_seconds = unread_seconds
        self._refused = refused

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        return _wrapped(await continuation(details), self._unary, self._streaming)

    def _unary(self, behave: _Unary) -> _Unary:
        timer = self._started()

        async def behaving(request: Any, context: Any) -> Any:
            timer.stop()
            context.add_done_callback(timer.stop)
            response = await behave(request, context)
            timer.start(self._unread_seconds, "unread_seconds")
            return response

        return behaving

    def _streaming(self, behave: _Stream) -> _Stream:
        timer = self._started()

        async def behaving(request: Any, context: Any) -> Any:
            timer.stop()
            context.add_done_callback(timer.stop)
            async with aclosing(behave(request, context)) as parts:
                async for part in parts:
                    timer.start(self._unread_seconds, "unread_seconds")
                    yield part
                    timer.stop()

        return behaving

    def _started(self) -> _Timer:
        timer = _Timer(self._refused)
        timer.start(self._request_seconds, "body_seconds")
        return timer


class IdentifiedCalls(grpc.aio.ServerInterceptor):
    """gRPC interceptor that assigns request ids, returned in the trailing metadata.

    Args:
        over: Called with the `RequestContext` of each finished call.
    """

    def __init__(self, over: Over):
        self._over = over

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        return _wrapped(await continuation(details), self._unary, self._streaming)

    def _unary(self, behave: _Unary) -> _Unary:
        async def behaving(request: Any, context: Any) -> Any:
            with self._recorded(context):
                return await behave(request, context)

        return behaving

    def _streaming(self, behave: _Stream) -> _Stream:
        async def behaving(request: Any, context: Any) -> Any:
            with self._recorded(context):
                async for response in behave(request, context):
                    yield response

        return behaving

    @contextmanager
    def _recorded(self, context: Any) -> Iterator[None]:
        metadata = dict(context.invocation_metadata() or ())
        with recorded("GRPC", metadata, self._over) as call:
            context.set_trailing_metadata(tuple(call.response_headers().items()))
            try:
                yield
            finally:
                code = context.code() or grpc.StatusCode.OK
                if context.cancelled():
                    code = grpc.StatusCode.CANCELLED
                call.status = getattr(code, "name", str(code))
