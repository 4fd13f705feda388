"""Request handling that the REST and gRPC APIs share."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from grpc import StatusCode
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
)

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.batched_arrays import Arrays, rows_in
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.inference import classify_regress
from transbeam.serving.server.inference.multi_inference import (
    chosen_signatures,
    multi_inference,
)
from transbeam.serving.server.inference.signature import DEFAULT, ServableSignature
from transbeam.serving.server.models.catalog import Catalog
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.monitoring.metrics import Metrics
from transbeam.serving.server.monitoring.request_ids import current
from transbeam.serving.server.protocol.generation_inputs import (
    STOP,
    rows_of_lists,
    split_stop_strings,
)
from transbeam.serving.server.protocol.json_requests import InputSpec
from transbeam.serving.server.protocol.model_spec import (
    model_spec,
    parse_target,
    target_spec,
)
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.protocol.tf_examples import serialized_examples
from transbeam.serving.server.request_handling.request_limits import (
    check_amounts,
    check_examples,
    check_stops,
)
from transbeam.serving.server.request_logging.prediction_log import (
    Entry,
    examples_entry,
    multi_inference_entry,
    predict_entry,
)
from transbeam.serving.server.request_logging.request_log import RequestLog
from transbeam.serving.server.streaming.continuous_batch import TextStream
from transbeam.serving.server.streaming.stream_requests import (
    StreamRequest,
    begin_signature,
)

_METADATA = "signature_def"
# Outputs that identify a signature for text generation.
_WRITTEN = {"generated_text", "length"}


@dataclass(frozen=True)
class Predicted:
    """Outputs of a signature, with the version and signature that computed them."""

    version: int
    signature: str
    outputs: dict[str, np.ndarray]


@dataclass(frozen=True)
class HeldVersion:
    """A version that stays loaded while several signatures are run for one request.

    Attributes:
        target: The model, as the request addresses it.
        number: The version number.
        loaded: The version.
    """

    target: ModelTarget
    number: int
    loaded: Loaded


class Service:
    """Handles requests for the models of a catalog.

    Args:
        catalog: The models.
        metrics: Metrics of requests.
        limits: Limits on requests.
        log: Request log; receives all successful requests except streams.
    """

    def __init__(
        self,
        catalog: Catalog,
        metrics: Metrics,
        limits: Limits | None = None,
        log: RequestLog | None = None,
    ):
        self.catalog = catalog
        self.metrics = metrics
        self.log = log
        # Set at shutdown, before the drain, so that load balancers see it first.
        self.draining = False
        self._limits = limits or Limits()
        self._model_seconds = dict(self._limits.model_seconds)

    def why_not_ready(self) -> str | None:
        """Returns the reason why the server is not ready; None if it is ready."""
        if self.draining:
            return "stopping"
        if self.catalog.starting:
            return self.catalog.progress()
        if not self.catalog.ready():
            return "not ready"
        return None

    @contextmanager
    def counted(self, model: str, api: str, entrypoint: str) -> Iterator[None]:
        """Counts the body of the `with` statement as one request."""
        began = time.perf_counter()
        status = "OK"
        # Unknown names from clients must not create series in the metrics.
        known = model if self.catalog.model(model) else ""
        call = current()
        call.api, call.model = api, known
        self.metrics.in_flight.inc()
        try:
            yield
        except StatusError as failure:
            status = failure.code.name
            if failure.reason is not None:
                self.metrics.refused(failure.reason)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            status = StatusCode.CANCELLED.name
            raise
        except Exception:
            status = StatusCode.INTERNAL.name
            raise
        finally:
            self.metrics.in_flight.dec()
            seconds = time.perf_counter() - began
            self.metrics.request(known, api, entrypoint, status, seconds)

    def deadline(self, model: str, seconds: float | None = None) -> Deadline:
        """Returns the deadline of a request that arrives now.

        Args:
            model: Name of the model.
            seconds: The client's timeout, if it has one.
        """
        most = self._model_seconds.get(model, self._limits.answer_seconds)
        return Deadline.after(most if seconds is None else max(0.0, min(seconds, most)))

    def taken(self, target: ModelTarget, signature: str) -> InputSpec:
        """Returns the inputs of a signature, for the JSON parser.

        Raises:
            StatusError: The model or the signature does not exist.
        """
        with self.catalog.use(target) as (_, loaded):
            found = loaded.signatures.get(signature or DEFAULT)
            if found is None:
                raise invalid(
                    f'Serving signature name: "{signature or DEFAULT}" not found in '
                    "signature def"
                )
            return found.taken

    @contextmanager
    def held(self, target: ModelTarget) -> Iterator[HeldVersion]:
        """Yields the version that a request addresses, for `predict_held`.

        Raises:
            StatusError: The model does not exist or is not available.
        """
        with self.catalog.use(target) as (version, loaded):
            current().version = version
            yield HeldVersion(target, version, loaded)

    async def predict(
        self,
        target: ModelTarget,
        signature: str,
        inputs: Arrays,
        output_filter: Sequence[str],
        deadline: Deadline,
    ) -> Predicted:
        """Runs a signature.

        Args:
            target: The model.
            signature: Name of the signature; empty for the default one.
            inputs: Inputs by name; inputs with a default value may be omitted.
            output_filter: Names of the requested outputs; all if empty.
            deadline: Deadline of the request.

        Raises:
            StatusError: The model, signature or an output does not exist, the inputs
                are invalid, or the deadline passes.
        """
        with self.held(target) as held:
            return await self.predict_held(
                held, signature, inputs, output_filter, deadline
            )

    async def predict_held(
        self,
        held: HeldVersion,
        signature: str,
        inputs: Arrays,
        output_filter: Sequence[str],
        deadline: Deadline,
        *,
        is_recorded: bool = True,
    ) -> Predicted:
        """Runs a signature of a version that `held` yielded; see `predict`.

        Args:
            held: The version.
            signature: Name of the signature.
            inputs: Inputs by name.
            output_filter: Names of the requested outputs.
            deadline: Deadline of the request.
            is_recorded: Whether the logs record the run as the client's request; false
                for runs that only prepare or describe the reply.
        """
        loaded, target = held.loaded, held.target
        found = loaded.signatures.get(signature or DEFAULT)
        if found is None:
            raise StatusError(
                StatusCode.FAILED_PRECONDITION,
                f'Serving signature key "{signature or DEFAULT}" not found.',
            )
        inputs = self._with_stops(found, found.completed(inputs))
        found.check_inputs(inputs)
        check_amounts(inputs, self._limits)
        names = found.choose_outputs(output_filter)
        if not is_recorded:
            outputs = await self._computed(loaded, found, inputs, names, deadline)
            return Predicted(held.number, found.name, outputs)
        outputs = await self._run(loaded, found, inputs, names, deadline)
        self._offer(
            target,
            lambda: predict_entry(
                target_spec(target, signature),
                inputs,
                output_filter,
                model_spec(target.name, held.number, found.name),
                outputs,
            ),
        )
        return Predicted(held.number, found.name, outputs)

    async def stream(
        self,
        target: ModelTarget,
        entrypoint: str,
        read: Callable[[int, ServableSignature], Awaitable[StreamRequest]],
    ) -> AsyncGenerator[StreamPart | FinalEvent]:
        """Generates a text and yields its parts as they are generated.

        Args:
            target: The model.
            entrypoint: `REST` or `GRPC`, for the metrics.
            read: Parses the request; takes the version and the signature that the
                request has to match.

        Yields:
            The parts of the text, then a `FinalEvent` with the complete text.

        Raises:
            StatusError: The model does not exist or cannot stream, the request is
                invalid, generation fails, or the next part takes too long.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[StreamPart | FinalEvent | StatusError] = asyncio.Queue()

        def deliver(item: StreamPart | FinalEvent | StatusError) -> None:
            with suppress(RuntimeError):  # the event loop is closed at shutdown
                loop.call_soon_threadsafe(events.put_nowait, item)

        with (
            self.counted(target.name, "Stream", entrypoint),
            self.catalog.use(target) as (version, loaded),
        ):
            call = current()
            call.version, call.rows = version, 1
            request = await read(version, begin_signature(loaded.signatures))
            check_amounts(request.inputs, self._limits)
            check_stops(request.stops, self._limits)
            stream = TextStream(request, deliver)
            loaded.write(stream)
            try:
                while True:
                    item = await self.deadline(target.name).wait(events.get())
                    if isinstance(item, StatusError):
                        raise item
                    yield item
                    if isinstance(item, FinalEvent):
                        call.tokens = item.num_tokens
                        return
            finally:
                stream.cancel()

    async def run_examples(
        self,
        method: str,
        target: ModelTarget,
        signature: str,
        examples: input_pb2.Input,
        deadline: Deadline,
    ) -> classify_regress.Response:
        """Runs a Classify or Regress request.

        Args:
            method: `classify` or `regress`.
            target: The model.
            signature: Name of the signature; empty for the default one.
            examples: The input of the request.
            deadline: Deadline of the request.

        Raises:
            StatusError: The signature does not support the method, or one of the errors
                of `predict` occurs.
        """
        name = classify_regress.METHODS[method]
        with self.catalog.use(target) as (version, loaded):
            current().version = version
            found = loaded.signatures.get(signature or DEFAULT)
            if found is None:
                raise invalid(
                    f"No signature was found with the name: {signature or DEFAULT}"
                )
            classify_regress.check_method(found, name)
            serialized = serialized_examples(examples)
            check_examples(serialized, self._limits)
            inputs = {classify_regress.INPUTS: serialized}
            names = classify_regress.method_output_names(found, name)
            outputs = await self._run(loaded, found, inputs, names, deadline)
        response = classify_regress.method_response(name, outputs, len(serialized))
        response.model_spec.CopyFrom(model_spec(target.name, version, found.name))
        self._offer(
            target,
            lambda: examples_entry(
                f"{method}_log", target_spec(target, signature), examples, response
            ),
        )
        return response

    async def multi_inference(
        self,
        request: inference_pb2.MultiInferenceRequest,
        deadline: Deadline,
    ) -> inference_pb2.MultiInferenceResponse:
        """Runs several Classify and Regress signatures of one model.

        Raises:
            StatusError: The tasks address different models, or one of the errors of
                `run_examples` occurs.
        """
        first = [task.model_spec for task in request.tasks[:1]]
        target = parse_target(*first) if first else ModelTarget("")
        with self.catalog.use(target) as (version, loaded):
            current().version = version
            chosen_signatures(request.tasks, loaded.signatures)
            check_examples(serialized_examples(request.input), self._limits)
            run = partial(loaded.run_tensors, deadline=deadline)
            response = await deadline.wait(
                asyncio.to_thread(multi_inference, request, loaded.signatures, run)
            )
        for result in response.results:
            result.model_spec.version.value = version
        self._offer(
            target,
            lambda: multi_inference_entry(
                model_spec(target.name, version), request, response
            ),
        )
        return response

    def metadata(
        self, target: ModelTarget, fields: Sequence[str] = (_METADATA,)
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Returns the signatures of a model.

        Args:
            target: The model.
            fields: Requested metadata fields; only `signature_def` exists.

        Raises:
            StatusError: The model does not exist, no metadata field is requested, or an
                unknown field is requested.
        """
        if not fields:
            raise invalid(
                "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for field in fields:
            if field != _METADATA:
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self.catalog.use(target) as (version, loaded):
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in loaded.signatures.items():
                signatures.signature_def[name].CopyFrom(signature.definition)
            response.model_spec.CopyFrom(model_spec(target.name, version))
            response.metadata[_METADATA].Pack(signatures)
        return response

    def status(
        self, target: ModelTarget
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the states of a model's versions, newest first.

        Args:
            target: The model; a label is ignored, as in TF Serving.

        Raises:
            StatusError: The model or version does not exist.
        """
        model = self.catalog.model(target.name)
        number = target.version
        versions = [
            version
            for version in (model.states() if model else [])
            if number in (None, version.number)
        ]
        if not versions:
            self.catalog.check_loaded(target.name)
            which = "any versions" if number is None else f"version {number}"
            raise StatusError(
                StatusCode.NOT_FOUND, f"Could not find {which} of model {target.name}"
            )
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in versions:
            status = response.model_version_status.add(version=version.number)
            status.state = int(version.state)  # type: ignore[assignment]
            if version.failure is not None:
                code, _ = version.failure.code.value
                status.status.error_code = code  # type: ignore[assignment]
                status.status.error_message = version.failure.message
            else:
                status.status.SetInParent()
        return response

    def _with_stops(self, signature: ServableSignature, inputs: Arrays) -> Arrays:
        """Checks stop strings, and joins the stop strings of each text into a string.

        Raises:
            StatusError: A limit is exceeded.
        """
        stops = inputs.get(STOP)
        if stops is None or STOP not in signature.forms or stops.dtype.kind != "O":
            return inputs
        if stops.ndim == 2:
            stops = rows_of_lists(stops)
        for joined in stops.ravel():
            check_stops(split_stop_strings(joined), self._limits)
        return {**inputs, STOP: stops}

    def _offer(self, target: ModelTarget, entry: Callable[[], Entry]) -> None:
        if self.log is not None:
            self.log.offer(target.name, entry)

    async def _run(
        self,
        loaded: Loaded,
        signature: ServableSignature,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
    ) -> dict[str, np.ndarray]:
        call = current()
        call.signature, call.rows = signature.name, rows_in(inputs)
        found = await self._computed(loaded, signature, inputs, outputs, deadline)
        if found.keys() >= _WRITTEN:
            call.tokens = int(found["length"].sum())
        return found

    async def _computed(
        self,
        loaded: Loaded,
        signature: ServableSignature,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
    ) -> dict[str, np.ndarray]:
        times = current().batch
        future = loaded.submit(signature, inputs, outputs, deadline, times)
        return await deadline.wait(asyncio.wrap_future(future))
