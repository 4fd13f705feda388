"""Runs warm-up requests and checks golden requests before a version is available."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from grpc import StatusCode

from transbeam.serving.base.golden_requests import FILE as GOLDEN
from transbeam.serving.base.golden_requests import GoldenRequest, read_golden
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
    read_warm_up,
)
from transbeam.serving.server.streaming.continuous_batch import run_once
from transbeam.serving.server.streaming.stream_requests import BEGIN, can_stream

# Runs a signature; takes its name and its inputs.
Run = Callable[[str, Arrays], dict[str, np.ndarray]]
# Called with the name of the warm-up's status code and its duration in seconds.
Observe = Callable[[str, float], None]


def warm_up(
    folder: Path,
    signatures: Mapping[str, ServableSignature],
    run: Run,
    run_tensors: RunTensors,
    observe: Observe,
) -> None:
    """Runs the warm-up requests of a SavedModel.

    Args:
        folder: The version folder.
        signatures: Signatures by name.
        run: Runs one signature.
        run_tensors: Runs several signatures in one graph run.
        observe: Called with the outcome and duration of the warm-up, if there are
            warm-up requests.

    Raises:
        StatusError: A warm-up request fails, or there are too many warm-up requests.
    """
    if not (folder / FILE).is_file():
        return
    with _timed(observe), _located(folder / FILE, "request") as counted:
        for number, request in counted(read_warm_up(folder)):
            if number > MOST:
                raise invalid(f"more than {MOST:,} requests to warm up with")
            if not isinstance(request, tuple):
                multi_inference(request, signatures, run_tensors)
                continue
            name, inputs = request
            signature = _known(signatures, name or DEFAULT)
            if unknown := sorted(inputs.keys() - signature.dtypes.keys()):
                raise invalid(f"there is no input {unknown[0]!r}")
            outputs = run(signature.name, inputs)
            if signature.name == BEGIN and can_stream(signatures):
                run_once(run, outputs)


def check_answers(
    folder: Path, signatures: Mapping[str, ServableSignature], run: Run
) -> list[GoldenRequest]:
    """Runs the golden requests of a SavedModel and compares outputs.

    Args:
        folder: The version folder.
        signatures: Signatures by name.
        run: Runs one signature.

    Returns:
        The golden requests.

    Raises:
        StatusError: An output differs from the one recorded at export.
    """
    golden_requests = []
    with _located(folder / GOLDEN, "question") as counted:
        for _, golden in counted(read_golden(folder)):
            signature = _known(signatures, golden.signature or DEFAULT)
            if wrong := golden.difference(run(signature.name, golden.inputs)):
                raise StatusError(
                    StatusCode.DATA_LOSS,
                    f"{signature.name} does not answer as it did when it was exported: "
                    f"{wrong}. Copy the version again, or export it again",
                )
            golden_requests.append(golden)
    return golden_requests


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
def _located(file: Path, what: str) -> Iterator[Callable[[Iterator], Iterator]]:
    """Adds the file and the record number to the message of an error.

    Args:
        file: The file.
        what: Noun for a record of the file, used in the message.

    Yields:
        A function that yields each record of an iterator with its number, from 1.
    """
    number = 1

    def counted(records: Iterator) -> Iterator:
        nonlocal number
        for record in records:
            yield number, record
            number += 1  # if reading fails, it is the next record that cannot be read

    try:
        yield counted
    except StatusError as failure:
        raise StatusError(
            failure.code, f"{file}, {what} {number}: {failure.message}"
        ) from None
    except (tf.errors.OpError, DecodeError, ValueError, TypeError, KeyError) as error:
        raise invalid(
            f"{file}, {what} {number}: {type(error).__name__}: {error}"
        ) from None
