"""Splits, groups and concatenates arrays whose first axis is the batch."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import numpy as np

Arrays = Mapping[str, np.ndarray]
Answer = Future[dict[str, np.ndarray]]

_SHORTEST = 64  # bytes; texts up to this length share one bucket


def bucket_key(inputs: Arrays) -> tuple[object, ...]:
    """Returns the bucket of a request: requests of one bucket may share a batch.

    A bucket is defined by the dtypes, the shapes of a row, and the length of the
    longest text, rounded up, because the graph pads all texts of a batch to the longest
    one. Bucket boundaries grow by a factor of sqrt(2).

    Args:
        inputs: Inputs of a request, all with the same number of rows.

    Example:
    >>> short, long = (np.array([b"a" * n], object) for n in (10, 100))
    >>> bucket_key({"text": short}) == bucket_key({"text": long})
    False
    """
    shapes = [
        (name, values.shape[1:], values.dtype.char)
        for name, values in sorted(inputs.items())
    ]
    longest = int(row_lengths(inputs).max(initial=1))
    return (*shapes, max(0, math.ceil(2 * math.log2(max(longest, 1) / _SHORTEST))))


def row_lengths(inputs: Arrays) -> np.ndarray:
    """Returns the length in bytes of the longest text in each row.

    Args:
        inputs: Inputs with the same number of rows.
    """
    rows = len(next(iter(inputs.values())))
    longest = np.zeros(rows, np.int64)
    for values in inputs.values():
        if values.dtype.kind == "O" and values.ndim == 1:
            lengths = np.fromiter(map(len, values), np.int64, rows)
            np.maximum(longest, lengths, out=longest)
    return longest


def rows_in(inputs: Arrays) -> int:
    """Returns the largest number of rows of any input."""
    return max((len(v) for v in inputs.values() if v.ndim), default=0)


def longest_text(inputs: Arrays) -> int:
    """Returns the length in bytes of the longest text.

    Args:
        inputs: Inputs of any shape.
    """
    texts = (values for values in inputs.values() if values.dtype.kind == "O")
    return max((max(map(len, v.ravel()), default=0) for v in texts), default=0)


def in_rows(outputs: Arrays, rows: int) -> bool:
    """Returns True if each output has `rows` rows."""
    return all(values.ndim and len(values) == rows for values in outputs.values())


def split_batch(outputs: Arrays, rows: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Splits the outputs of a batch by request; drops padding rows.

    Args:
        outputs: Outputs of the batch.
        rows: Number of rows of each request.
    """
    ends = np.cumsum(rows)
    return [
        {name: values[end - count : end] for name, values in outputs.items()}
        for end, count in zip(ends, rows, strict=True)
    ]


class ConcatenatedRows:
    """Merges the outputs of a split request's parts, as they complete, into one future.

    All rows of the request are run again together if the outputs of the parts cannot be
    concatenated: if the widths of their rows differ (rows of token ids), because only
    the graph knows the padding value, or if an output has no batch axis.

    Args:
        parts: Futures of the parts' outputs.
        indices: For each part, the indices of its rows in the request.
        run_unsplit: Function that runs all rows of the request together.

    Attributes:
        answer: Future of the merged outputs.
    """

    def __init__(
        self,
        parts: Sequence[Answer],
        indices: Sequence[np.ndarray],
        run_unsplit: Callable[[], Answer],
    ):
        self.answer: Answer = Future()
        self._parts, self._indices, self._run_unsplit = parts, indices, run_unsplit
        self._left, self._failed = len(parts), False
        self._lock = threading.Lock()
        self.answer.add_done_callback(self._cancel)
        for part in parts:
            part.add_done_callback(self._finish)

    def _finish(self, part: Answer) -> None:
        error = None if part.cancelled() else part.exception()
        with self._lock:
            self._left -= 1
            had_failed, self._failed = self._failed, self._failed or error is not None
            is_last = not self._left
        if had_failed:
            return
        if error is not None:
            set_outcome(self.answer, error)
        elif is_last:
            self._concatenate()

    def _concatenate(self) -> None:
        try:
            answers = [part.result() for part in self._parts]
            if _are_compatible(answers, self._indices):
                order = np.argsort(np.concatenate(self._indices))
                rows = {
                    name: np.concatenate([answer[name] for answer in answers])[order]
                    for name in answers[0]
                }
                set_outcome(self.answer, rows)
            else:
                self._run_unsplit().add_done_callback(self._pass_on)
        except BaseException as error:
            set_outcome(self.answer, error)

    def _pass_on(self, found: Answer) -> None:
        error = found.exception()
        set_outcome(self.answer, found.result() if error is None else error)

    def _cancel(self, _: Answer) -> None:
        # In reverse: canceling a queued part from the front would start the next one.
        for part in reversed(self._parts):
            part.cancel()


def set_outcome(answer: Answer, result: dict[str, np.ndarray] | BaseException) -> None:
    """Sets a future's result or exception unless it was canceled."""
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _are_compatible(answers: Sequence[Arrays], indices: Sequence[np.ndarray]) -> bool:
    counted = zip(answers, indices, strict=True)
    return all(in_rows(answer, len(part)) for answer, part in counted) and all(
        len({answer[name].shape[1:] for answer in answers}) == 1 for name in answers[0]
    )
