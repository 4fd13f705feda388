"""Checks the rows, the text and the stop strings of a request against limits."""

from collections.abc import Iterable, Sequence

import numpy as np
from grpc import StatusCode
from tensorflow.core.example import example_pb2

from transbeam.serving.server.base.batched_arrays import Arrays, rows_in
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.limits import Limits

# Inputs with this suffix are binary, such as encoded images, and do not count as text.
_NO_TEXT = "_bytes"


def check_amounts(inputs: Arrays, limits: Limits) -> None:
    """Rejects a request with too many rows or too much text.

    Args:
        inputs: Inputs by name; inputs named `…_bytes` are not text.
        limits: Limits on requests.

    Raises:
        StatusError: A limit is exceeded.
    """
    check_rows(rows_in(inputs), limits)
    texts = (
        text
        for name, values in inputs.items()
        if values.dtype.kind == "O" and not name.endswith(_NO_TEXT)
        for text in values.ravel()
    )
    _check_text(sum(map(len, texts)), limits)


def check_examples(serialized: np.ndarray, limits: Limits) -> None:
    """Applies the limits of `check_amounts` to serialized `tf.train.Example`s, (N,)."""
    check_rows(len(serialized), limits)
    if sum(map(len, serialized)) > limits.text_bytes:  # otherwise no need to parse
        _check_text(sum(map(len, _request_texts(serialized))), limits)


def _request_texts(serialized: np.ndarray) -> Iterable[bytes]:
    for content in serialized:
        features = example_pb2.Example.FromString(content).features.feature
        for name, feature in features.items():
            if not name.endswith(_NO_TEXT):
                yield from feature.bytes_list.value


def check_rows(rows: int, limits: Limits) -> None:
    """Rejects a request with too many rows.

    Args:
        rows: Number of rows.
        limits: Limits on requests.

    Raises:
        StatusError: The limit is exceeded.
    """
    if rows > limits.rows:
        raise _too_much(
            "rows",
            f"the request has {rows:,} rows, and this server takes {limits.rows:,} at "
            "once; send them in several requests, or raise --max-rows",
        )


def check_stops(stops: Sequence[bytes], limits: Limits) -> None:
    """Rejects too many or too long stop strings.

    Args:
        stops: Stop strings of one text; empty strings are ignored.
        limits: Limits on requests.

    Raises:
        StatusError: A limit is exceeded.
    """
    count, longest = sum(map(bool, stops)), max(map(len, stops), default=0)
    if count > limits.stop_strings:
        raise _too_much(
            "stop_strings",
            f"stop: found {count} strings for a text; expected at most "
            f"{limits.stop_strings}",
            http=400,
        )
    if longest > limits.stop_bytes:
        raise _too_much(
            "stop_bytes",
            f"stop: found a string of {longest} bytes; expected at most "
            f"{limits.stop_bytes}",
            http=400,
        )


def _check_text(size: int, limits: Limits) -> None:
    if size > limits.text_bytes:
        raise _too_much(
            "text_bytes",
            f"the request has {size:,} bytes of text, and this server reads "
            f"{limits.text_bytes:,} at once; send less of it, or raise "
            "--max-text-bytes",
        )


def _too_much(reason: str, message: str, http: int = 413) -> StatusError:
    return StatusError(StatusCode.INVALID_ARGUMENT, message, http=http, reason=reason)
