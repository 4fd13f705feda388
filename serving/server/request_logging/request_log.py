"""Logs sampled requests and responses in a background thread.

Request handlers only put entries into a queue; the thread creates the log messages and
writes them. If the thread cannot keep up or the disk fails, entries are dropped and
counted; the requests themselves are not affected.
"""

import logging
import os
import random
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.base.atomic_files import os_problem, writing
from transbeam.serving.server.models.catalog import LogSettings
from transbeam.serving.server.monitoring.metrics import Metrics
from transbeam.serving.server.request_logging.prediction_log import Entry
from transbeam.serving.server.request_logging.tfrecord_files import RecordFiles

# Limits of the queue: number of entries, and their size in bytes.
_MOST_ENTRIES = 1024
_MOST_BYTES = 64 * 2**20
_RETRY_SECONDS = 30.0

_log = logging.getLogger("transbeam.serve")


@dataclass
class _Sink:
    """Log files of a model.

    Attributes:
        share: Sampling rate.
        files: The log files.
        refused: True if the last write failed.
        again: Time before which no further write is tried.
    """

    share: float
    files: RecordFiles
    refused: bool = False
    again: float = 0.0


class RequestLog:
    """Logs requests and responses of a server.

    Args:
        wanted: Log settings of individual models, by model name.
        default: Log settings of all other models; if None, other models are not logged.
        metrics: Metrics that count written and dropped entries.
        most_entries: Maximum number of queued entries.
        retry_seconds: Pause after a failed write.

    Raises:
        ArtifactError: A folder is not writable.
    """

    def __init__(
        self,
        wanted: Mapping[str, LogSettings],
        default: LogSettings | None,
        metrics: Metrics,
        *,
        most_entries: int = _MOST_ENTRIES,
        retry_seconds: float = _RETRY_SECONDS,
    ):
        self._wanted = dict(wanted)
        self._default = default
        for settings in [*wanted.values(), *([default] if default else [])]:
            folder = Path(os.path.dirname(settings.prefix) or ".")
            with writing(folder):  # raises an error if the folder is not writable
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=folder).close()
        self._metrics = metrics
        self._most_entries = most_entries
        self._retry_seconds = retry_seconds
        self._random = random.Random()
        self._sinks: dict[str, _Sink] = {}
        self._queue: deque[tuple[str, Entry]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        # A daemon thread: a hanging disk must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def settings(self, model: str) -> LogSettings | None:
        """Returns the log settings of a model; None if it is not logged."""
        return self._wanted.get(model, self._default)

    def offer(self, model: str, entry: Callable[[], Entry]) -> None:
        """Queues a log entry if the request is sampled; never raises an error.

        Args:
            model: Name of the model.
            entry: Creates the entry; called only if the request is sampled.
        """
        settings = self.settings(model)
        if settings is None or self._random.random() >= settings.share:
            return
        try:
            kept = self._keep(model, entry())
        except Exception:
            _log.exception("%s: a request cannot be written down", model)
            kept = False
        if not kept:
            self._metrics.logged.labels(model, "dropped").inc()

    def close(self, patience: float = 10.0) -> None:
        """Writes the queued entries and completes the files.

        Args:
            patience: Maximum wait in seconds; entries not written by then are lost.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(patience)

    def _keep(self, model: str, entry: Entry) -> bool:
        with self._changed:
            waiting = len(self._queue)
            full = self._bytes + entry.size > _MOST_BYTES and waiting > 0
            if self._closed or full or waiting >= self._most_entries:
                return False
            self._queue.append((model, entry))
            self._bytes += entry.size
            self._changed.notify()
            return True

    def _next(self) -> tuple[str, Entry] | None:
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            if not self._queue:
                return None
            model, entry = self._queue.popleft()
            self._bytes -= entry.size
            return model, entry

    def _run(self) -> None:
        while following := self._next():
            model, entry = following
            outcome = "written" if self._write(model, entry) else "dropped"
            self._metrics.logged.labels(model, outcome).inc()
        for sink in self._sinks.values():
            with suppress(OSError):
                sink.files.close()

    def _write(self, model: str, entry: Entry) -> bool:
        if model not in self._sinks:
            settings = self.settings(model)
            assert settings is not None  # otherwise no entry would have been queued
            self._sinks[model] = _Sink(
                settings.share, RecordFiles(settings.prefix, model)
            )
        sink = self._sinks[model]
        if time.monotonic() < sink.again:
            return False
        try:
            sink.files.write(entry.log(sink.share).SerializeToString())
        except OSError as error:
            sink.again = time.monotonic() + self._retry_seconds
            if not sink.refused:
                _log.warning(
                    "%s: requests are not logged: %s",
                    model,
                    os_problem(error) or error,
                )
            sink.refused = True
            return False
        except Exception:  # an invalid entry must not end the thread
            _log.exception("%s: a request cannot be written down", model)
            return False
        if sink.refused:
            _log.info("%s: requests are logged again", model)
        sink.refused = False
        return True
