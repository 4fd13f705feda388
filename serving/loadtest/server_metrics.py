"""Reads the server's own metrics before and after a load test.

The server must have a Prometheus endpoint: `transbeam serve` has one, TF Serving only
with `--monitoring_config_file`.
"""

from dataclasses import dataclass
from pathlib import Path

import urllib3
from prometheus_client.parser import text_string_to_metric_families

_PAGE = "/monitoring/prometheus/metrics"
_PREFIX = ":tensorflow:serving:"


@dataclass(frozen=True)
class ServerCounts:
    """Metrics of a server; all except `memory` are totals since the server started.

    Attributes:
        batches: Executed batches.
        rows: Number of rows in the executed batches.
        queued: Seconds that the first request of each batch waited in the queue, in
            total.
        computed: Seconds of computation in TensorFlow.
        memory: Resident memory of the process at present, in bytes.
    """

    batches: float = 0.0
    rows: float = 0.0
    queued: float = 0.0
    computed: float = 0.0
    memory: float = 0.0


def read_counts(
    address: str, model: str, token: str | None = None, certificate: Path | None = None
) -> ServerCounts | None:
    """Reads a server's metrics.

    Args:
        address: Address of the server's REST API.
        model: The model's name.
        token: The access token, if the server requires one.
        certificate: PEM file of the issuer of the server's certificate, if this machine
            does not trust it by default.

    Returns:
        The values of the counters; None if the server does not provide them.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib3.PoolManager(ca_certs=certificate and str(certificate)) as pool:
            response = pool.request(
                "GET", address.rstrip("/") + _PAGE, headers=headers, timeout=10
            )
    except urllib3.exceptions.HTTPError:
        return None
    if response.status != 200:
        return None
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(response.data.decode()):
        for sample in family.samples:
            if sample.labels.get("model_name", model) == model:
                name = sample.name.removeprefix(_PREFIX)
                found[name] = found.get(name, 0.0) + sample.value
    return ServerCounts(
        batches=found.get("batching_session:processed_batch_size_count", 0.0),
        rows=found.get("batching_session:processed_batch_size_sum", 0.0),
        queued=found.get("batching_session:queuing_latency_sum", 0.0) / 1e6,
        computed=found.get("runtime_latency_sum", 0.0) / 1e6,
        memory=found.get("process_resident_memory_bytes", 0.0),
    )
