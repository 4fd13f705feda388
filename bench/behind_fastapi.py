"""`transbeam serve` against a hand-written server: FastAPI and PyTorch.

    python -m bench.behind_fastapi VOCABULARY --torch-python PATH

BERT-base with the same weights, in float32; 32 clients over HTTP, texts of 8 to 128
tokens; the two servers take turns. `PATH` is the Python of an environment with torch,
transformers, fastapi and uvicorn; VOCABULARY is BERT's `vocab.txt`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import urllib3

from bench.answering import Answering
from bench.bert_classifier import write_versions
from bench.classifying import PEER
from bench.pairs import heading, row, spread
from bench.serving_batches import CLIENTS, TEXTS
from transbeam.serving.loadtest.load_loops import Sample, closed_loop

PORTS = {"transbeam serve": 18700, "FastAPI and PyTorch": 18701}
SERVER = Path(__file__).parent / "peers/fastapi_classifier.py"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(prog="bench.behind_fastapi", description=__doc__)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--torch-python", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        checkpoint = folder / "checkpoint"
        Answering([arguments.torch_python, PEER, checkpoint, "float32"]).seconds(1, 8)
        model = write_versions(checkpoint, arguments.vocabulary, folder)["float32"]
        ours, its = (str(port) for port in PORTS.values())
        serve = [sys.executable, "-m", "transbeam", "serve", "--model", model.parent]
        serve += ["--name", "bert", "--rest-port", ours, "--port", "0"]
        peer = [arguments.torch_python, SERVER, checkpoint, arguments.vocabulary, its]
        for command in (serve, peer):
            process = subprocess.Popen(
                list(map(str, command)), stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        compare(arguments.rounds, arguments.seconds)


def compare(rounds: int, seconds: float) -> None:
    """Measures in turns, and prints the table."""
    samples: dict[str, list[list[Sample]]] = {name: [] for name in PORTS}
    for name in PORTS:
        wait_for(name)
        load(name, seconds / 4)
    for _ in range(rounds):
        for name in PORTS:
            samples[name].append(load(name, seconds))
    rates = {name: [rate(of) for of in rounds] for name, rounds in samples.items()}
    print(heading(f"{CLIENTS} clients", "requests/s", "p50", "p99", "ours / its"))
    for name, loads in samples.items():
        times = [[1000 * sample.seconds for sample in of] for of in loads]
        ours = zip(rates["transbeam serve"], rates[name], strict=True)
        print(
            row(
                name,
                spread(rates[name], ".1f"),
                spread([float(np.percentile(t, 50)) for t in times], ",.0f", " ms"),
                spread([float(np.percentile(t, 99)) for t in times], ",.0f", " ms"),
                spread([a / b for a, b in ours], ".2f", "x"),
            )
        )


_pools = threading.local()


def ask(name: str, number: int) -> None:
    """One question."""
    if not hasattr(_pools, "pool"):
        _pools.pool = urllib3.PoolManager(retries=False, timeout=120)
    text = TEXTS[number % len(TEXTS)]
    if name == "transbeam serve":
        path, body = "v1/models/bert:predict", {"instances": [text]}
    else:
        path, body = "predict", {"text": text}
    address = f"http://127.0.0.1:{PORTS[name]}/{path}"
    response = _pools.pool.request(
        "POST",
        address,
        body=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    if response.status != 200:
        raise RuntimeError(response.data)


def load(name: str, seconds: float) -> list[Sample]:
    """All clients at once."""
    samples = closed_loop(lambda number: ask(name, number), CLIENTS, seconds)
    assert not any(sample.error for sample in samples), samples
    return samples


def rate(samples: list[Sample]) -> float:
    """Answers a second, until the last one."""
    return len(samples) / max(sample.due + sample.seconds for sample in samples)


def wait_for(name: str) -> None:
    """Until a server answers."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            return ask(name, 0)
        except (urllib3.exceptions.HTTPError, RuntimeError):
            time.sleep(1)
    raise TimeoutError(name)


if __name__ == "__main__":
    main()
