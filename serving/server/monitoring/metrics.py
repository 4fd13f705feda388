"""Prometheus metrics, under TF Serving's names.

https://www.tensorflow.org/tfx/serving/serving_config#monitoring_configuration. Times
are in microseconds, in the histogram buckets of TF Serving's request metrics, so that
dashboards for TF Serving can be used.
"""

import collections
import threading
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

from transbeam.serving.server.models.batching.batch_runner import Timing
from transbeam.serving.server.models.catalog import Catalog
from transbeam.serving.server.streaming.continuous_batch import GeneratedTokens

PATH = "/monitoring/prometheus/metrics"

_PREFIX = ":tensorflow:serving:"
_MICROSECONDS = [10 * 1.8**power for power in range(33)]
_ROWS = [2**power for power in range(15)]

# Otherwise each series would have a second one with its creation time.
disable_created_metrics()


class _ModelMemory:
    """Collector of the memory that each available version takes."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    def collect(self) -> Iterable[Metric]:
        metric = Metric(
            "transbeam_model_memory_bytes",
            "Bytes that the process grew by while a version was loaded and got warm.",
            "gauge",
        )
        for model in self._catalog.models():
            for version in model.states():
                grown = version.loaded.grown if version.loaded else None
                if grown is not None:
                    metric.add_sample(
                        metric.name,
                        {"model_name": model.name, "version": str(version.number)},
                        grown,
                    )
        yield metric


class Metrics:
    """Counters, gauges and histograms of one server.

    Attributes:
        registry: The Prometheus registry.
        in_flight: Number of requests in progress.
        connections: Number of open HTTP connections.
        logged: Number of requests selected for the request log, by outcome.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU time, open files
        self._requests: collections.Counter[tuple[str, str]] = collections.Counter()
        self._lock = threading.Lock()
        self.registry.register(self)  # type: ignore[arg-type] (it has `collect`)
        self.in_flight = Gauge(
            "transbeam_requests_in_flight",
            "Requests that are being answered.",
            registry=self.registry,
        )
        self.connections = Gauge(
            "transbeam_connections",
            "Open connections of the HTTP door.",
            registry=self.registry,
        )
        self.logged = Counter(
            "transbeam_logged_requests",
            "Requests that were to be written down: `written`, or `dropped`.",
            ["model_name", "outcome"],
            registry=self.registry,
        )
        self._refused = Counter(
            "transbeam_refused",
            "Requests and connections beyond a limit of the server, by the limit.",
            ["reason"],
            registry=self.registry,
        )
        self._latency = self._histogram(
            _PREFIX + "request_latency",
            "Microseconds a request took in the server.",
            ["model_name", "API", "entrypoint"],
            _MICROSECONDS,
        )
        self._runtime = self._histogram(
            _PREFIX + "runtime_latency",
            "Microseconds a batch took in TensorFlow.",
            ["model_name"],
            _MICROSECONDS,
        )
        self._queuing = self._histogram(
            _PREFIX + "batching_session:queuing_latency",
            "Microseconds the first request of a batch waited.",
            ["model_name"],
            _MICROSECONDS,
        )
        self._batch = self._histogram(
            _PREFIX + "batching_session:processed_batch_size",
            "Rows of a batch.",
            ["model_name"],
            _ROWS,
        )
        self._tokens = Counter(
            "transbeam_stream_tokens",
            "Tokens that were written for streams.",
            ["model_name"],
            registry=self.registry,
        )
        self._together = self._histogram(
            "transbeam_stream_rows",
            "Texts that were written side by side, at each token but their first.",
            ["model_name"],
            _ROWS,
        )
        self._step = self._histogram(
            "transbeam_stream_step_latency",
            "Microseconds a token of each text took, but for their first.",
            ["model_name"],
            _MICROSECONDS,
        )
        self._first = self._histogram(
            "transbeam_stream_first_token_latency",
            "Microseconds a text waited for its first token.",
            ["model_name"],
            _MICROSECONDS,
        )
        self._warm_up = self._histogram(
            _PREFIX + "model_warmup_latency",
            "Microseconds a version took to warm up.",
            ["model_path", "status"],
            _MICROSECONDS,
        )

    def watch(self, catalog: Catalog) -> None:
        """Adds the readiness and memory metrics of a catalog."""
        Gauge(
            "transbeam_ready",
            "1 if each model has a version that answers.",
            registry=self.registry,
        ).set_function(lambda: float(catalog.ready()))
        self.registry.register(_ModelMemory(catalog))  # type: ignore[arg-type]

    def request(
        self, model: str, api: str, entrypoint: str, status: str, seconds: float
    ) -> None:
        """Records a finished request, and the latency of a successful request."""
        with self._lock:
            self._requests[model, status] += 1
        if status == "OK":
            self._latency.labels(model, api, entrypoint).observe(seconds * 1e6)

    def refused(self, reason: str) -> None:
        """Counts a request or connection that exceeded a limit."""
        self._refused.labels(reason).inc()

    def batch(self, model: str, timing: Timing) -> None:
        """Records the size and times of a batch."""
        self._runtime.labels(model).observe(timing.ran * 1e6)
        self._queuing.labels(model).observe(timing.waited * 1e6)
        self._batch.labels(model).observe(timing.rows)

    def written(self, model: str, written: GeneratedTokens) -> None:
        """Records a generation step, which adds one token to each active stream."""
        self._tokens.labels(model).inc(written.tokens)
        for seconds in written.waited:
            self._first.labels(model).observe(seconds * 1e6)
        if not written.waited:
            self._together.labels(model).observe(written.tokens)
            self._step.labels(model).observe(written.ran * 1e6)

    def warm_up(self, folder: Path, status: str, seconds: float) -> None:
        """Records the warm-up of a version that has warm-up requests."""
        self._warm_up.labels(str(folder), status).observe(seconds * 1e6)

    def page(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        """Yields request counts without prometheus_client's suffix `_total`."""
        metric = Metric(f"{_PREFIX}request_count", "Requests.", "unknown")
        with self._lock:
            counts = dict(self._requests)
        for (model, status), count in sorted(counts.items()):
            metric.add_sample(
                metric.name, {"model_name": model, "status": status}, count
            )
        yield metric

    def _histogram(
        self, name: str, text: str, labels: list[str], buckets: list[float]
    ) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)
