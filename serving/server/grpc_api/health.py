"""gRPC's standard health service: who balances the load asks it, as Kubernetes does.

https://github.com/grpc/grpc/blob/master/doc/health-checking.md. It says what `/readyz`
says, and needs no token either.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from transbeam.serving.server.grpc_api.error_details import short_details
from transbeam.serving.server.request_handling.service import Service

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
# The whole server; and its services, as TF Serving calls them and by their whole names.
_KNOWN = {"", "PredictionService", "ModelService"}
_KNOWN |= {f"tensorflow.serving.{name}" for name in _KNOWN if name}
# Between two looks for who wants to be told of changes.
_LOOK_SECONDS = 0.5

_Status = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """Tells whether every model answers and the server is not about to stop.

    The servicer that comes with the stubs is told of changes, forgets those who watch
    when one of them leaves, and has no end. This one looks.

    Args:
        service: Knows it.
    """

    def __init__(self, service: Service):
        self._service = service

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in _KNOWN:
            message = short_details(f"there is no service {request.service!r}")
            await context.abort(grpc.StatusCode.NOT_FOUND, message)
        return _Status(status=self._status())

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        told = None
        while True:
            last = self._service.draining
            known = request.service in _KNOWN
            status = self._status() if known else _Status.SERVICE_UNKNOWN
            if status != told:
                yield _Status(status=status)
                told = status
            # A server that stops waits for what has begun, and this has no other end.
            if last:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _status(self) -> Any:
        ready = self._service.why_not_ready() is None
        return _Status.SERVING if ready else _Status.NOT_SERVING


def add_health(server: Any, service: Service) -> None:
    """Lets a server tell of its health.

    Args:
        server: Of `grpc.aio`, not started.
        service: Knows it.
    """
    health_pb2_grpc.add_HealthServicer_to_server(Health(service), server)
