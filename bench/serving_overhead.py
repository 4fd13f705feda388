"""Overhead of the server per request: `python -m bench.serving_overhead [MODEL]`.

The same request to the session that holds the model, in this process; to a server in a
process of its own, over REST and over gRPC, as bytes that are ready to be sent and
whose answer nobody reads; over gRPC also by `transbeam.serving.client.connect`, which
makes and reads them; and, for what no server of Python's can go below, an empty call of
grpc.aio and of Starlette on uvicorn. All in turns, round after round, one request at a
time. MODEL is the folder above a SavedModel's versions, and is asked TEXT by its
`serving_default`. Without it the model counts bytes: what is above the session is then
the server alone, without what it costs TensorFlow that its threads have fallen asleep
between requests.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.pairs import heading, row, spread
from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2  # noqa: E402

from transbeam.serving.client.connect import connect  # noqa: E402
from transbeam.serving.server.inference.servable import Servable  # noqa: E402

Call = Callable[[], object]
PORTS = (18600, 18601)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--text", default="Returns a [MASK].")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=300)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        calls_of(arguments.model or counting(Path(folder)), arguments.text) as calls,
    ):
        for call in calls.values():
            timed(call, 100)
        rounds = [
            {name: timed(call, arguments.requests) for name, call in calls.items()}
            for _ in range(arguments.rounds)
        ]
    print(heading("request", "p50", "p99", "p50 above the session's"))
    for name in calls:
        above = [one[name][0] - one["the session alone"][0] for one in rounds]
        print(
            row(
                name,
                spread([one[name][0] for one in rounds], ".2f", " ms"),
                spread([one[name][1] for one in rounds], ".2f", " ms"),
                "" if name.startswith(("the", "an")) else spread(above, ".2f", " ms"),
            )
        )
    versions = f"tensorflow {tf.__version__}, grpcio {grpc.__version__}"
    print(f"\nPython {platform.python_version()}, {versions}; {platform.machine()}.")


def counting(folder: Path) -> Path:
    """A model that counts the bytes of texts."""
    module = tf.Module()
    texts = tf.TensorSpec([None], tf.string, name="text")
    count = tf.function(lambda text: {"bytes": tf.strings.length(text)}, [texts])
    signatures = count.get_concrete_function()
    tf.saved_model.save(module, str(folder / "counting/1"), signatures)
    return folder / "counting"


@contextmanager
def calls_of(model: Path, text: str) -> Iterator[dict[str, Call]]:
    """The ways to ask."""
    version = max(model.iterdir(), key=lambda folder: int(folder.name))
    servable = Servable(version)
    signature = servable.signatures["serving_default"]
    outputs = sorted(signature.definition.outputs)
    inputs = {"text": np.array([text.encode()], object)}
    body = json.dumps({"instances": [text]})
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model.name
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
    message = request.SerializeToString()
    path = f"/v1/models/{model.name}:predict"
    empty = multiprocessing.get_context("spawn").Process(target=empty_servers)
    empty.start()
    try:
        with serving(model) as (rest, rpc):
            wait_for(f"127.0.0.1:{PORTS[0]}")
            wait_for(f"127.0.0.1:{PORTS[1]}")
            connection = http.client.HTTPConnection(rest.removeprefix("http://"))
            bare = http.client.HTTPConnection("127.0.0.1", PORTS[0])
            echo = bytes_call(f"127.0.0.1:{PORTS[1]}", "/empty/call")
            predict = bytes_call(rpc, "/tensorflow.serving.PredictionService/Predict")
            with connect(f"grpc://{rpc}", model.name) as client:
                yield {
                    "the session alone": lambda: servable.run(
                        signature, inputs, outputs, 30.0
                    ),
                    "REST": lambda: posted(connection, path, body),
                    "gRPC": lambda: predict(message),
                    "gRPC, `transbeam.serving.client.connect`": lambda: client.ask(
                        "serving_default", {"text": [text]}
                    ),
                    "an empty answer of uvicorn": lambda: posted(bare, "/", body),
                    "an empty answer of grpc.aio": lambda: echo(b"x" * 64),
                }
    finally:
        empty.kill()


@contextmanager
def serving(model: Path) -> Iterator[tuple[str, str]]:
    """`transbeam serve` in a process of its own."""
    ports = ["--port", "0", "--rest-port", "0"]
    command = [
        sys.executable,
        "-m",
        "transbeam.serving",
        "serve",
        "--model",
        str(model),
    ]
    process = subprocess.Popen(
        [*command, *ports, "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        said = ""
        assert process.stdout is not None
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        told = json.loads(said)
        yield told["rest"], told["grpc"]
    finally:
        process.terminate()
        process.wait()


def bytes_call(address: str, method: str) -> Callable[[bytes], bytes]:
    """A method of a server over gRPC, from bytes to bytes."""
    channel = grpc.insecure_channel(address)
    return channel.unary_unary(method, lambda sent: sent, lambda found: found)


def posted(connection: http.client.HTTPConnection, path: str, body: str) -> bytes:
    """The answer to a body."""
    connection.request("POST", path, body)
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, answer
    return answer


def timed(call: Call, requests: int) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    taken = []
    for _ in range(requests):
        began = time.perf_counter()
        call()
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken), float(np.percentile(taken, 99))


def empty_servers() -> None:
    """Servers with empty responses, as fast as the libraries can be."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def nothing(request: Any) -> Response:
        await request.body()
        return Response(b"{}")

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    async def run() -> None:
        server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(echo, lambda x: x, lambda x: x)
        handler = grpc.method_handlers_generic_handler("empty", {"call": method})
        server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"127.0.0.1:{PORTS[1]}")
        await server.start()
        app = Starlette(routes=[Route("/", nothing, methods=["POST"])])
        config = uvicorn.Config(
            app,
            port=PORTS[0],
            http="httptools",
            log_level="error",
            access_log=False,
            timeout_keep_alive=600,  # the others have their turns meanwhile
        )
        await uvicorn.Server(config).serve()

    asyncio.run(run())


def wait_for(address: str) -> None:
    """Until somebody listens."""
    import socket

    host, _, port = address.rpartition(":")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(address)


if __name__ == "__main__":
    main()
