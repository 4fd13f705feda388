"""A gRPC client that uses TF Serving's stubs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.client.interface import (
    Connection,
    Inputs,
    RemoteClient,
    ServerError,
    SignatureTypes,
    untrusted,
)
from transbeam.serving.client.retries import with_retries

# A method of our server; TF Serving's stubs do not have it.
_STREAMED = "/tensorflow.serving.PredictionService/PredictStreamed"
# Dtypes of the sampling parameters; all other inputs of a stream are text.
_SAMPLING_DTYPES = {
    "max_new_tokens": tf.int32,
    "temperature": tf.float32,
    "top_k": tf.int32,
    "top_p": tf.float32,
    "seed": tf.int32,
    "min_p": tf.float32,
    "repetition_penalty": tf.float32,
    "no_repeat_ngram_size": tf.int32,
}
# Messages of gRPC about certificates, for which it has no status code.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed")
_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


class RpcClient(RemoteClient):
    """A gRPC client; see `transbeam.serving.client.interface.Client`.

    Args:
        connection: The server's address and credentials.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        certificate, token = connection.certificate, connection.token
        scheme, _, target = connection.address.partition("://")
        # A response may be larger than gRPC's default limit of 4 MB.
        options = [("grpc.max_receive_message_length", -1)]
        if scheme == "grpcs":
            credentials = grpc.ssl_channel_credentials(
                None if certificate is None else certificate.read_bytes()
            )
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._streamed = self._channel.unary_stream(
            _STREAMED,
            request_serializer=predict_pb2.PredictRequest.SerializeToString,
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        self._spec = model_pb2.ModelSpec(name=connection.model)
        if connection.version is not None:
            self._spec.version.value = connection.version
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._known: dict[str, SignatureTypes] | None = None

    def signatures(self) -> dict[str, SignatureTypes]:
        response = self._call(
            self._stub.GetModelMetadata,
            get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=self._spec, metadata_field=["signature_def"]
            ),
        )
        found = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(found)
        return {
            name: SignatureTypes(_types(of.inputs), _types(of.outputs))
            for name, of in sorted(found.signature_def.items())
            if not name.startswith("__")
        }

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        if self._known is None:
            self._known = self.signatures()
        known = self._known.get(signature, SignatureTypes({}, {})).inputs
        request = predict_pb2.PredictRequest(model_spec=self._spec)
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            dtype = types_pb2.DataType.Value(known[name]) if name in known else None
            request.inputs[name].CopyFrom(_tensor(name, values, dtype))
        outputs = self._call(self._stub.Predict, request).outputs
        return {name: tf.make_ndarray(proto) for name, proto in outputs.items()}

    def stream(self, inputs: Mapping[str, Any]) -> Iterator[StreamPart | FinalEvent]:
        request = predict_pb2.PredictRequest(model_spec=self._spec)
        for name, value in inputs.items():
            dtype = _SAMPLING_DTYPES.get(name, tf.string)
            request.inputs[name].CopyFrom(_tensor(name, value, dtype))
        call, first = self._call(self._begin, request)
        try:
            yield _part(first)
            for response in call:
                yield _part(response)
        except grpc.RpcError as error:
            raise self._refusal(error) from None
        finally:
            call.cancel()

    def _begin(self, request: Any, left: float, metadata: Any) -> tuple[Any, Any]:
        """Starts a streaming call; returns the call and the first response."""
        call = self._streamed(request, left, metadata=metadata)
        return call, next(call)

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        def attempt(left: float) -> Any:
            try:
                return method(request, left, metadata=self._metadata)
            except grpc.RpcError as error:
                raise self._refusal(error) from None

        return with_retries(attempt, self._connection)

    def _refusal(self, error: grpc.RpcError) -> ServerError:
        found: Any = error  # it is a call, too
        code, details = found.code(), found.details()
        if any(reason in details for reason in _UNTRUSTED):
            return untrusted(self._connection.address, details)
        return ServerError(code.name, details, again=code in _AGAIN)


def _tensor(name: str, values: Any, dtype: Any) -> Any:
    try:
        return tf.make_tensor_proto(values, dtype)
    except (TypeError, ValueError) as error:
        raise ServerError("INVALID_ARGUMENT", f"{name}: {error}") from None


def _part(response: predict_pb2.PredictResponse) -> StreamPart | FinalEvent:
    fields = {n: tf.make_ndarray(value).item() for n, value in response.outputs.items()}
    for name in ("text", "generated_text"):
        if name in fields:
            fields[name] = fields[name].decode()
    return FinalEvent(**fields) if "generated_text" in fields else StreamPart(**fields)


def _types(tensors: Any) -> dict[str, str]:
    return {
        name: types_pb2.DataType.Name(tensor.dtype)
        for name, tensor in sorted(tensors.items())
    }
