"""Arrays with a row for each thing to predict: grouped, cut and joined."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import numpy as np

Arrays = Mapping[str, np.ndarray]
Answer = Future[dict[str, np.ndarray]]

_SHORTEST = 64  # bytes of a text; up to here all are of one length


def group_of(inputs: Arrays) -> tuple[object, ...]:
    """What inputs have in common that may share a batch.

    These are types, what a row is shaped like, and about the length of the longest
    text, because the graph fills the others up to it. From one group to the next but
    one, lengths double.

    Args:
        inputs: Of a request, with as many rows in each.

    Example:
    >>> short, long = (np.array([b"a" * n], object) for n in (10, 100))
    >>> group_of({"text": short}) == group_of({"text": long})
    False
    """
    shapes = [
        (name, values.shape[1:], values.dtype.char)
        for name, values in sorted(inputs.items())
    ]
    longest = int(row_lengths(inputs).max(initial=1))
    return (*shapes, max(0, math.ceil(2 * math.log2(max(longest, 1) / _SHORTEST))))


def row_lengths(inputs: Arrays) -> np.ndarray:
    """Bytes of the longest text in each row.

    Args:
        inputs: With as many rows in each.
    """
    rows = len(next(iter(inputs.values())))
    longest = np.zeros(rows, np.int64)
    for values in inputs.values():
        if values.dtype.kind == "O" and values.ndim == 1:
            lengths = np.fromiter(map(len, values), np.int64, rows)
            np.maximum(longest, lengths, out=longest)
    return longest


def rows_in(inputs: Arrays) -> int:
    """Rows of the input that has most of them."""
    return max((len(v) for v in inputs.values() if v.ndim), default=0)


def longest_text(inputs: Arrays) -> int:
    """Bytes of the longest text.

    Args:
        inputs: Of any shapes.
    """
    texts = (values for values in inputs.values() if values.dtype.kind == "O")
    return max((max(map(len, v.ravel()), default=0) for v in texts), default=0)


def in_rows(outputs: Arrays, rows: int) -> bool:
    """Whether each output has a row for each row of the inputs."""
    return all(values.ndim and len(values) == rows for values in outputs.values())


def cut(outputs: Arrays, rows: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Each request its rows of the outputs; what is left over is nobody's.

    Args:
        outputs: Of a batch.
        rows: How many each request has.
    """
    ends = np.cumsum(rows)
    return [
        {name: values[end - count : end] for name, values in outputs.items()}
        for end, count in zip(ends, rows, strict=True)
    ]


def joined(
    parts: Sequence[Answer],
    places: Sequence[np.ndarray],
    whole: Callable[[], Answer],
) -> Answer:
    """The answers to parts of a request as one.

    Where the parts' rows are not of one width, as rows of token ids are, only the graph
    knows what to fill them up with; and some outputs are not in rows at all. Then the
    `whole` is asked at once.

    Args:
        parts: Their answers.
        places: The rows of the request that each part has.
        whole: Asks for all rows together.
    """
    return _ConcatenatedRows(parts, places, whole).answer


class _ConcatenatedRows:
    """See `joined`."""

    def __init__(
        self,
        parts: Sequence[Answer],
        places: Sequence[np.ndarray],
        whole: Callable[[], Answer],
    ):
        self.answer: Answer = Future()
        self._parts, self._places, self._whole = parts, places, whole
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
            settle(self.answer, error)
        elif is_last:
            self._put_together()

    def _put_together(self) -> None:
        try:
            answers = [part.result() for part in self._parts]
            if _fit_together(answers, self._places):
                settle(self.answer, _in_order(answers, self._places))
            else:
                self._whole().add_done_callback(self._pass_on)
        except BaseException as error:
            settle(self.answer, error)

    def _pass_on(self, found: Answer) -> None:
        error = found.exception()
        settle(self.answer, found.result() if error is None else error)

    def _cancel(self, _: Answer) -> None:
        # From behind: when one that waits is given up, the next one would come.
        for part in reversed(self._parts):
            part.cancel()


def settle(answer: Answer, result: dict[str, np.ndarray] | BaseException) -> None:
    """Gives whoever still waits the answer."""
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _fit_together(answers: Sequence[Arrays], places: Sequence[np.ndarray]) -> bool:
    counted = zip(answers, places, strict=True)
    return all(in_rows(answer, len(part)) for answer, part in counted) and all(
        len({answer[name].shape[1:] for answer in answers}) == 1 for name in answers[0]
    )


def _in_order(
    answers: Sequence[Arrays], places: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    order = np.argsort(np.concatenate(places))
    return {
        name: np.concatenate([answer[name] for answer in answers])[order]
        for name in answers[0]
    }
