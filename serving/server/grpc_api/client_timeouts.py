"""Cancels gRPC calls whose client sends no request or reads no response.

gRPC itself waits without a limit for both if the client set no deadline and its
connection is alive. Canceling the task that serves a call resets its stream.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc

_Refused = Callable[[str], None]


class _Timer:
    """Cancels the task that serves a call unless it is stopped in time."""

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
        handler = await continuation(details)
        if handler is None or not (handler.unary_unary or handler.unary_stream):
            return handler
        timer = _Timer(self._refused)
        timer.start(self._request_seconds, "body_seconds")
        if handler.unary_unary:
            behave = self._unary(handler.unary_unary, timer)
            make = grpc.unary_unary_rpc_method_handler
        else:
            behave = self._streaming(handler.unary_stream, timer)
            make = grpc.unary_stream_rpc_method_handler
        return make(behave, handler.request_deserializer, handler.response_serializer)

    def _unary(
        self, behave: Callable[[Any, Any], Awaitable[Any]], timer: _Timer
    ) -> Any:
        async def behaving(request: Any, context: Any) -> Any:
            timer.stop()
            context.add_done_callback(timer.stop)
            answer = await behave(request, context)
            timer.start(self._unread_seconds, "unread_seconds")
            return answer

        return behaving

    def _streaming(self, behave: Callable[[Any, Any], Any], timer: _Timer) -> Any:
        async def behaving(request: Any, context: Any) -> Any:
            timer.stop()
            context.add_done_callback(timer.stop)
            async with aclosing(behave(request, context)) as parts:
                async for part in parts:
                    timer.start(self._unread_seconds, "unread_seconds")
                    yield part
                    timer.stop()

        return behaving
