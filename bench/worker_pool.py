"""A pool of Beam workers: `python bench/worker_pool.py HOST:PORT`.

Beam's own `worker_pool_main` listens at all addresses of a machine. Two task managers
on one machine need a pool each, at the same port: both number their workers from 1, and
a pool that they shared would stop the one's worker when the other asks for it.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import (
    BeamFnExternalWorkerPoolServicer,
)


def main(address: str) -> None:
    """Serves until the process is stopped."""
    server = grpc.server(ThreadPoolExecutor(), options=[("grpc.so_reuseport", 0)])
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(
        BeamFnExternalWorkerPoolServicer(
            use_process=True, data_buffer_time_limit_ms=-1
        ),
        server,
    )
    server.add_insecure_port(address)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
