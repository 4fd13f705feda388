"""Access log: a line of JSON for each request, without its texts."""

import json
import logging
import queue
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.server.monitoring.request_ids import RequestContext

# Maximum number of lines waiting to be written; further lines are dropped.
_MOST = 10_000


class AccessLog:
    """Writes a line for each request from a background thread.

    If the file is moved, for example by logrotate, a new file is created at its
    original path.

    Args:
        file: File that lines are appended to.

    Raises:
        ArtifactError: The file cannot be written.
    """

    def __init__(self, file: Path):
        try:
            handler = WatchedFileHandler(file, encoding="utf-8")
        except OSError as error:
            raise ArtifactError(
                f"{file}: cannot be written: {error.strerror}; give another with "
                "--access-log FILE"
            ) from None
        handler.setFormatter(logging.Formatter("%(message)s"))
        lines: queue.Queue[Any] = queue.Queue(_MOST)
        self._log = logging.Logger("access")
        self._log.addHandler(_Dropping(lines))
        self._handler = handler
        self._listener = QueueListener(lines, handler)
        self._listener.start()

    def __call__(self, call: RequestContext) -> None:
        self._log.info(format_line(call))

    def close(self) -> None:
        """Writes the queued lines and closes the file."""
        self._listener.stop()
        self._handler.close()


class _Dropping(QueueHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Drops the line if the queue is full, so that no request waits for the log."""


def format_line(call: RequestContext, now: datetime | None = None) -> str:
    """Formats the log line of a call.

    Example:
    >>> call = RequestContext("a1", None, "REST", api="Predict", model="m")
    >>> call.status = "200"
    >>> format_line(call, datetime(2026, 1, 2, tzinfo=UTC))[:75]
    '{"time": "2026-01-02T00:00:00+00:00", "request_id": "a1", "door": "REST", "'
    """
    fields = {
        "time": (now or datetime.now(UTC)).isoformat(),
        "request_id": call.id,
        "traceparent": call.trace,
        "door": call.door,
        "api": call.api or None,
        "model": call.model or None,
        "version": call.version,
        "signature": call.signature,
        "rows": call.rows,
        "tokens": call.tokens,
        "queue_ms": _milliseconds(call.waited),
        "graph_ms": _milliseconds(call.ran),
        "ms": _milliseconds(call.seconds),
        "status": call.status,
    }
    return json.dumps({name: v for name, v in fields.items() if v is not None})


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
