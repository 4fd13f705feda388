"""gRPC server reflection, for tools such as grpcurl.

https://github.com/grpc/grpc/blob/master/doc/server-reflection.md. `PredictStreamed` is
not listed: no proto file of TF Serving contains it.
"""

from collections.abc import AsyncIterator
from typing import Any

from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from transbeam.serving.server.base.auth import AccessTokens
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.grpc_api.error_details import short_details
from transbeam.serving.server.grpc_api.health import HEALTH


class Reflection(reflection.aio.ReflectionServicer):
    """Reflection service for all services of the server.

    Args:
        tokens: Accepted bearer tokens.
    """

    def __init__(self, tokens: AccessTokens):
        files = (prediction_service_pb2, model_service_pb2)
        services = [
            service.full_name
            for file in files
            for service in file.DESCRIPTOR.services_by_name.values()
        ]
        super().__init__([*services, HEALTH, reflection.SERVICE_NAME])
        self._tokens = tokens

    async def ServerReflectionInfo(
        self, requests: Any, context: Any
    ) -> AsyncIterator[Any]:
        try:
            metadata = dict(context.invocation_metadata() or ())
            self._tokens.check(metadata.get("authorization"))
        except StatusError as failure:
            await context.abort(failure.code, short_details(failure.message))
        responses: Any = super().ServerReflectionInfo(requests, context)
        async for response in responses:
            yield response


def add_reflection(server: Any, tokens: AccessTokens) -> None:
    """Registers the reflection service with a server.

    Args:
        server: A `grpc.aio` server that is not started.
        tokens: Accepted bearer tokens.
    """
    servicer = Reflection(tokens)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
