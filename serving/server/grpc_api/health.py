"""gRPC's standard health service, used by load balancers and Kubernetes.

https://github.com/grpc/grpc/blob/master/doc/health-checking.md. It reports the same
state as `/readyz` and, like it, needs no token.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from transbeam.serving.server.grpc_api.error_details import short_details
from transbeam.serving.server.request_handling.service import Service

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
# The empty name is the whole server; the services by their short and their full names.
_KNOWN = {"", "PredictionService", "ModelService"}
_KNOWN |= {f"tensorflow.serving.{name}" for name in _KNOWN if name}
# Interval at which `Watch` checks for a change.
_LOOK_SECONDS = 0.5

_Status = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """Reports SERVING if every model is available and the server is not draining.

    It polls, unlike the servicer of grpcio-health-checking, which must be notified of
    changes, drops watchers when one of them disconnects, and never ends a watch.

    Args:
        service: The service whose readiness is reported.
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
            # A stopping server waits for running calls, and this one would never end.
            if last:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _status(self) -> Any:
        ready = self._service.why_not_ready() is None
        return _Status.SERVING if ready else _Status.NOT_SERVING


def add_health(server: Any, service: Service) -> None:
    """Registers the health service with a server.

    Args:
        server: A `grpc.aio` server that is not started.
        service: The service whose readiness is reported.
    """
    health_pb2_grpc.add_HealthServicer_to_server(Health(service), server)
