"""Starts the gRPC server with TF Serving's PredictionService and ModelService.

https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from grpc import StatusCode
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.auth import AccessTokens, Right
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError, invalid, short_details
from transbeam.serving.server.base.worker_thread import are_large, run_in_thread
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.configuration.tf_serving_files import parse_models
from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.grpc_api.interceptors import (
    IdentifiedCalls,
    PatientCalls,
)
from transbeam.serving.server.grpc_api.standard_services import (
    add_standard_services,
    check_token,
)
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.monitoring.request_ids import Over, current
from transbeam.serving.server.protocol.model_spec import model_spec, parse_target
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.protocol.tensor_proto import to_array, write_proto
from transbeam.serving.server.request_handling.reload_config import reload_for_client
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.streaming.stream_requests import (
    StreamRequest,
    stream_request,
)

# Time that running calls get on a connection that has reached its maximum age.
_AGE_GRACE_MILLISECONDS = 600_000

SERVICE, STREAMED = "tensorflow.serving.PredictionService", "PredictStreamed"

_log = logging.getLogger("transbeam.serve")


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """TF Serving's PredictionService.

    Args:
        service: Runs the requests.
        tokens: Accepted bearer tokens.
    """

    def __init__(self, service: Service, tokens: AccessTokens):
        self._service = service
        self._tokens = tokens

    async def Predict(self, request: Any, context: Any) -> Any:
        async def answer() -> predict_pb2.PredictResponse:
            spec = request.model_spec
            predicted = await self._service.predict(
                _target(request),
                spec.signature_name,
                _arrays(request),
                request.output_filter,
                self._deadline(spec.name, context),
            )
            response = predict_pb2.PredictResponse(
                model_spec=model_spec(spec.name, predicted.version, predicted.signature)
            )

            def write() -> predict_pb2.PredictResponse:
                for name, values in predicted.outputs.items():
                    write_proto(values, response.outputs[name])
                return response

            return await run_in_thread(are_large(predicted.outputs), write)

        return await self._ask(context, "Predict", request.model_spec.name, answer)

    async def Classify(self, request: Any, context: Any) -> Any:
        return await self._run_examples("Classify", request, context)

    async def Regress(self, request: Any, context: Any) -> Any:
        return await self._run_examples("Regress", request, context)

    async def _run_examples(self, method: str, request: Any, context: Any) -> Any:
        spec = request.model_spec
        return await self._ask(
            context,
            method,
            spec.name,
            lambda: self._service.run_examples(
                method.lower(),
                _target(request),
                spec.signature_name,
                request.input,
                self._deadline(spec.name, context),
            ),
        )

    async def MultiInference(self, request: Any, context: Any) -> Any:
        name = request.tasks[0].model_spec.name if request.tasks else ""
        return await self._ask(
            context,
            "MultiInference",
            name,
            lambda: self._service.multi_inference(
                request, self._deadline(name, context)
            ),
        )

    async def GetModelMetadata(self, request: Any, context: Any) -> Any:
        async def answer() -> get_model_metadata_pb2.GetModelMetadataResponse:
            return self._service.metadata(_target(request), request.metadata_field)

        return await answered(context, self._tokens, answer)

    async def PredictStreamed(
        self, request: Any, context: Any
    ) -> AsyncIterator[predict_pb2.PredictResponse]:
        """Streams a generated text; an extension of TF Serving's API.

        The request's inputs are the model's text inputs and, optionally, sampling
        parameters. Each response has the outputs `text` and `token_id`, except the last
        response, which has the fields of `FinalEvent`.
        """
        spec = request.model_spec
        answering = model_pb2.ModelSpec()

        async def read(version: int, signature: ServableSignature) -> StreamRequest:
            answering.CopyFrom(model_spec(spec.name, version, signature.name))
            return stream_request(_arrays(request), signature)

        stream = self._service.stream(parse_target(spec), "GRPC", read)
        async with aclosing(stream) as parts:
            while part := await answered(
                context, self._tokens, lambda: anext(parts, None), Right.PREDICT
            ):
                yield _response(answering, part)

    def _deadline(self, name: str, context: Any) -> Deadline:
        """Returns the earlier of the model's deadline and the client's deadline."""
        return self._service.deadline(name, context.time_remaining())

    async def _ask(
        self, context: Any, api: str, name: str, answer: Callable[[], Awaitable[Any]]
    ) -> Any:
        async def counted() -> Any:
            with self._service.counted(name, api, "GRPC"):
                return await answer()

        return await answered(context, self._tokens, counted, Right.PREDICT)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """TF Serving's ModelService: model status and configuration reload.

    Args:
        service: Service that handles requests for the models.
        tokens: Accepted bearer tokens.
        reload_roots: Folders from which clients may load models.
    """

    def __init__(
        self, service: Service, tokens: AccessTokens, reload_roots: Sequence[Path]
    ):
        self._service = service
        self._tokens = tokens
        self._reload_roots = reload_roots

    async def GetModelStatus(self, request: Any, context: Any) -> Any:
        async def answer() -> get_model_status_pb2.GetModelStatusResponse:
            return self._service.status(_target(request))

        return await answered(context, self._tokens, answer)

    async def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:
        async def answer() -> model_management_pb2.ReloadConfigResponse:
            try:
                wanted = parse_models(request.config)
            except ConfigError as error:
                raise invalid(str(error)) from None
            # In a daemon thread: hanging storage must not keep the process alive.
            reload = run_in_background(
                partial(reload_for_client, self._service, wanted, self._reload_roots),
                "reload",
            )
            await asyncio.wrap_future(reload)
            response = model_management_pb2.ReloadConfigResponse()
            response.status.SetInParent()
            return response

        return await answered(context, self._tokens, answer, Right.RELOAD)


async def answered(
    context: Any,
    tokens: AccessTokens,
    answer: Callable[[], Awaitable[Any]],
    right: Right | None = None,
) -> Any:
    """Checks the token and awaits the response; aborts the call with a gRPC status.

    Args:
        context: Context of the call.
        tokens: Accepted bearer tokens.
        answer: Computes the response.
        right: Right that the token must grant.
    """
    try:
        check_token(context, tokens, right)
        return await answer()
    except StatusError as failure:
        code, message = failure.code, failure.message
    except Exception:
        _log.exception("gRPC, request %s", current().id)
        code, message = StatusCode.INTERNAL, "Internal error; see the server's log"
    await context.abort(code, short_details(message))


def _target(request: Any) -> ModelTarget:
    """Returns the model that a request addresses.

    Raises:
        StatusError: The request has no model spec.
    """
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    return parse_target(request.model_spec)


def _arrays(request: Any) -> dict[str, np.ndarray]:
    return {name: to_array(name, proto) for name, proto in request.inputs.items()}


def _response(
    answering: model_pb2.ModelSpec, part: StreamPart | FinalEvent
) -> predict_pb2.PredictResponse:
    response = predict_pb2.PredictResponse(model_spec=answering)
    for name, value in asdict(part).items():
        response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return response


def _streaming(service: PredictionService) -> grpc.GenericRpcHandler:
    """Creates the handler of `PredictStreamed`, which TF Serving's stubs lack."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            STREAMED: grpc.unary_stream_rpc_method_handler(
                service.PredictStreamed,
                request_deserializer=predict_pb2.PredictRequest.FromString,
                response_serializer=predict_pb2.PredictResponse.SerializeToString,
            )
        },
    )


def _options(most_bytes: int, limits: ConnectionLimits) -> list[tuple[str, int]]:
    """Returns the channel arguments of gRPC's core; times are in milliseconds."""
    unread = int(limits.unread_seconds * 1000)
    return [
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_send_message_length", -1),
        # With SO_REUSEPORT, two servers on one port would each get half the requests.
        ("grpc.so_reuseport", 0),
        # Between the soft and the hard limit, gRPC rejects at random: make them equal.
        ("grpc.max_metadata_size", limits.head_bytes),
        ("grpc.absolute_max_metadata_size", limits.head_bytes),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        # A single connection cannot use up all calls.
        ("grpc.max_concurrent_streams", max(1, limits.calls // 10)),
        ("grpc.server_handshake_timeout_ms", int(limits.head_seconds * 1000)),
        ("grpc.max_connection_idle_ms", int(limits.idle_seconds * 1000)),
        ("grpc.max_connection_age_ms", int(limits.age_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", _AGE_GRACE_MILLISECONDS),
        # Disconnects clients that do not reply to pings while a call is running.
        ("grpc.keepalive_time_ms", unread),
        ("grpc.keepalive_timeout_ms", unread),
        ("grpc.http2.max_pings_without_data", 0),
    ]


async def start_rpc(
    service: Service,
    settings: ServerSettings,
    address: str,
    credentials: grpc.ServerCredentials | None = None,
    over: Over = lambda call: None,
) -> tuple[Any, int]:
    """Starts the gRPC server.

    Args:
        service: Runs the requests.
        settings: Settings of the server: limits, tokens, and a Unix socket that is
            opened in addition to the address.
        address: `HOST:PORT`; port 0 for any free port.
        credentials: TLS credentials; None without TLS.
        over: Called with the `RequestContext` of each finished call.

    Returns:
        The server and its port.

    Raises:
        OSError: The address is invalid or in use.
    """
    limits, tokens = settings.connections, settings.tokens
    server = grpc.aio.server(
        options=_options(settings.limits.body_bytes, limits),
        interceptors=[
            PatientCalls(
                settings.limits.body_seconds,
                limits.unread_seconds,
                service.metrics.refused,
            ),
            IdentifiedCalls(over),
        ],
        maximum_concurrent_rpcs=limits.calls,
    )
    predictions = PredictionService(service, tokens)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        predictions, server
    )
    server.add_generic_rpc_handlers((_streaming(predictions),))
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(service, tokens, settings.reload_roots), server
    )
    add_standard_services(server, service, tokens)
    port = _listen(server, address, credentials)
    if settings.grpc_socket_path is not None:
        _listen(server, f"unix:{settings.grpc_socket_path}", credentials)
    await server.start()
    return server, port


def _listen(
    server: Any, address: str, credentials: grpc.ServerCredentials | None
) -> int:
    """Binds a server to an address and returns the port.

    Raises:
        OSError: The address is invalid or in use.
    """
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(str(error)) from None
    if port == 0:
        raise OSError(f"{address} cannot be had")
    return port
