"""What a version has to do before it answers: get warm, and answer what is known."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from grpc import StatusCode

from transbeam.serving.base.golden_requests import FILE as GOLDEN
from transbeam.serving.base.golden_requests import Golden, read_golden
from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.inference.multi_inference import (
    RunTensors,
    multi_inference,
)
from transbeam.serving.server.inference.signature import DEFAULT, ServableSignature
from transbeam.serving.server.models.warmup_requests import (
    FILE,
    MOST,
    WarmUp,
    read_warm_up,
)
from transbeam.serving.server.streaming.continuous_batch import go_round
from transbeam.serving.server.streaming.stream_requests import BEGIN, can_stream

# Runs a signature: its name, and its inputs.
Run = Callable[[str, Arrays], dict[str, np.ndarray]]
# Is told how getting warm ended, as a code's name, and how many seconds it took.
Observe = Callable[[str, float], None]


def warm_up(
    folder: Path,
    signatures: Mapping[str, ServableSignature],
    run: Run,
    run_tensors: RunTensors,
    observe: Observe,
) -> None:
    """Runs the requests that a SavedModel brings along, as if clients asked.

    Args:
        folder: The version folder.
        signatures: What can be asked.
        run: Runs one of them.
        run_tensors: Runs several at once.
        observe: Is told of it, if there are requests.

    Raises:
        Failure: A request fails, or there are too many.
    """
    if not (folder / FILE).is_file():
        return

    def ask(request: WarmUp) -> None:
        if not isinstance(request, tuple):
            multi_inference(request, signatures, run_tensors)
            return
        name, inputs = request
        signature = _known(signatures, name or DEFAULT)
        if unknown := sorted(inputs.keys() - signature.dtypes.keys()):
            raise invalid(f"there is no input {unknown[0]!r}")
        found = run(signature.name, inputs)
        if signature.name == BEGIN and can_stream(signatures):
            go_round(run, found)

    with _timed(observe), _placed(folder / FILE, "request") as counted:
        for number, request in counted(read_warm_up(folder)):
            if number > MOST:
                raise invalid(f"more than {MOST:,} requests to warm up with")
            ask(request)


def check_answers(
    folder: Path, signatures: Mapping[str, ServableSignature], run: Run
) -> list[Golden]:
    """Asks a SavedModel the questions that it brings along with their answers.

    Args:
        folder: The version folder.
        signatures: What can be asked.
        run: Runs one of them.

    Returns:
        The questions.

    Raises:
        Failure: One is answered otherwise than it was when the model was exported.
    """
    asked = []
    with _placed(folder / GOLDEN, "question") as counted:
        for _, golden in counted(read_golden(folder)):
            signature = _known(signatures, golden.signature or DEFAULT)
            wrong = golden.difference(run(signature.name, golden.inputs))
            if wrong:
                raise StatusError(
                    StatusCode.DATA_LOSS,
                    f"{signature.name} does not answer as it did when it was exported: "
                    f"{wrong}. Copy the version again, or export it again",
                )
            asked.append(golden)
    return asked


def _known(signatures: Mapping[str, ServableSignature], name: str) -> ServableSignature:
    if name not in signatures:
        raise invalid(f"there is no signature {name!r}")
    return signatures[name]


@contextmanager
def _timed(observe: Observe) -> Iterator[None]:
    began = time.perf_counter()
    code = StatusCode.INTERNAL
    try:
        yield
        code = StatusCode.OK
    except StatusError as failure:
        code = failure.code
        raise
    finally:
        observe(code.name, time.perf_counter() - began)


@contextmanager
def _placed(file: Path, what: str) -> Iterator[Callable[[Iterator], Iterator]]:
    """Says of failures at which record of a file they are.

    Args:
        file: The file.
        what: What its records are.

    Yields:
        Counts records from 1 while they are read.
    """
    number, reading = 0, True

    def counted(records: Iterator) -> Iterator:
        nonlocal number, reading
        while True:
            reading = True
            record = next(records, None)
            if record is None:
                return
            number, reading = number + 1, False
            yield number, record

    try:
        yield counted
    except StatusError as failure:
        message = f"{file}, {what} {number}: {failure.message}"
        raise StatusError(failure.code, message) from None
    except (tf.errors.OpError, DecodeError, ValueError, TypeError, KeyError) as error:
        place = f"{file}, {what} {number + reading}"
        raise invalid(f"{place}: {type(error).__name__}: {error}") from None
