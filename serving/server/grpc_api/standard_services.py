"""gRPC's standard services: health and server reflection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from transbeam.serving.server.base.auth import AccessTokens, Right
from transbeam.serving.server.base.status import StatusError, short_details
from transbeam.serving.server.request_handling.service import Service

# The empty name is the whole server; the services by their short and their full names.
_KNOWN = {"", "PredictionService", "ModelService"}
_KNOWN |= {f"tensorflow.serving.{name}" for name in _KNOWN if name}
# Interval at which `Watch` checks for a change.
_LOOK_SECONDS = 0.5

_Status = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """Health for load balancers and Kubernetes: SERVING if every model is available.

    https://github.com/grpc/grpc/blob/master/doc/health-checking.md. The health service
    reports the same state as `/readyz` and, like `/readyz`, requires no token.

    It polls. The servicer of grpcio-health-checking is not used, because it must be
    notified of changes, drops other calls of Watch when one disconnects, and never ends
    a watch.

    Args:
        service: The service whose readiness is reported.
    """

    def __init__(self, service: Service):
        self._service = service

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in _KNOWN:
            await context.abort(
                grpc.StatusCode.NOT_FOUND,
                short_details(f"there is no service {request.service!r}"),
            )
        return _Status(status=self._status())

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        reported = None
        while True:
            last = self._service.draining
            known = request.service in _KNOWN
            status = self._status() if known else _Status.SERVICE_UNKNOWN
            if status != reported:
                yield _Status(status=status)
                reported = status
            # A stopping server waits for running calls, and this one would never end.
            if last:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _status(self) -> Any:
        ready = self._service.why_not_ready() is None
        return _Status.SERVING if ready else _Status.NOT_SERVING


class Reflection(reflection.aio.ReflectionServicer):
    """Server reflection for all services of the server, for tools such as grpcurl.

    https://github.com/grpc/grpc/blob/master/doc/server-reflection.md. `PredictStreamed`
    is not listed: no proto file of TF Serving contains it.

    Args:
        tokens: Accepted bearer tokens.
    """

    def __init__(self, tokens: AccessTokens):
        services = [
            service.full_name
            for file in (prediction_service_pb2, model_service_pb2, health_pb2)
            for service in file.DESCRIPTOR.services_by_name.values()
        ]
        super().__init__([*services, reflection.SERVICE_NAME])
        self._tokens = tokens

    async def ServerReflectionInfo(
        self, requests: Any, context: Any
    ) -> AsyncIterator[Any]:
        try:
            check_token(context, self._tokens)
        except StatusError as failure:
            await context.abort(failure.code, short_details(failure.message))
        responses: Any = super().ServerReflectionInfo(requests, context)
        async for response in responses:
            yield response


def check_token(context: Any, tokens: AccessTokens, right: Right | None = None) -> None:
    """Checks the token in the metadata of a call; see `AccessTokens.check`.

    Raises:
        StatusError: The token is missing or unknown, or does not grant the required
            right.
    """
    metadata = dict(context.invocation_metadata() or ())
    tokens.check(metadata.get("authorization"), right)


def add_standard_services(server: Any, service: Service, tokens: AccessTokens) -> None:
    """Registers health and reflection with a server.

    Args:
        server: A `grpc.aio` server that is not started.
        service: The service whose readiness is reported.
        tokens: Accepted bearer tokens.
    """
    health_pb2_grpc.add_HealthServicer_to_server(Health(service), server)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        Reflection(tokens), server
    )
