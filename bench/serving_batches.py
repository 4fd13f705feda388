"""Effect of batching on a server: `python -m bench.serving_batches VOCABULARY`.

A BERT classifier with weights at random behind `transbeam serve`, with batches and
without, each a process of its own; 32 clients ask one of the two at a time, in turns.
Texts are of 8 to 128 tokens, evenly distributed. And the first request after a server
has become ready, against those that follow. VOCABULARY is BERT's `vocab.txt`.
"""

import argparse
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.pairs import heading, row, spread
from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from transbeam.configs.loader.yaml_config import load_run  # noqa: E402
from transbeam.configs.schema.objectives.supervised import ClassificationConfig  # noqa: E402
from transbeam.configs.schema.tokenizer import PretrainedConfig  # noqa: E402
from transbeam.model.build import build_model  # noqa: E402
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer  # noqa: E402
from transbeam.pipeline.tokenizers.training.train_tokenizer import make_tokenizer  # noqa: E402
from transbeam.serving.base.trained_run import TrainedRun  # noqa: E402
from transbeam.serving.client.connect import connect  # noqa: E402
from transbeam.serving.client.interface import RemoteClient  # noqa: E402
from transbeam.serving.export.saved_model_writer import write_saved_model  # noqa: E402
from transbeam.serving.export.stored_requests import write_warm_up  # noqa: E402
from transbeam.serving.loadtest.load_loops import Sample, closed_loop  # noqa: E402
from transbeam.serving.signatures.task_factory import make_signature_task  # noqa: E402

NAME, CLIENTS = "bert", 32
WORDS = ["film", "good", "bad", "story", "the", "of", "and", "long", "short", "quiet"]
WAYS = {"with batches": [], "without": ["--no-batching"]}


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_model(folder, arguments)
        clients, first = {}, {}
        for name, flags in WAYS.items():
            clients[name] = stack.enter_context(served(folder / NAME, flags))
            first[name] = first_and_others(clients[name])
        for client in clients.values():
            load(client, arguments.seconds / 4)
        rounds = [
            {name: load(client, arguments.seconds) for name, client in clients.items()}
            for _ in range(arguments.rounds)
        ]
    show(rounds, f"BERT, {arguments.layers} layers of {arguments.hidden}")
    columns = (
        "first request",
        "p50 of the next 30",
        "ratio",
        "p50 after a pause",
        "ratio",
    )
    print("\n" + heading("server", *columns))
    for name, (one, *others) in first.items():
        cells = [[f"{1000 * p50:.1f} ms", f"{one / p50:.2f}x"] for p50 in others]
        print(row(name, f"{1000 * one:.1f} ms", *cells[0], *cells[1]))
    versions = f"tensorflow {tf.__version__}, keras {keras.__version__}"
    print(f"\nPython {platform.python_version()}, {versions}; {platform.machine()}.")


def write_model(folder: Path, arguments: argparse.Namespace) -> None:
    """Exports the classifier, with what warms a server up."""
    config = load_run(Path("configs/presets/bert_base.yaml"))
    hidden, feedforward = arguments.hidden, config.model.feedforward
    config = replace(
        config,
        objective=ClassificationConfig(labels=("bad", "good")),
        model=replace(
            config.model,
            num_layers=arguments.layers,
            hidden_dim=hidden,
            attention=replace(config.model.attention, num_heads=hidden // 64),
            feedforward=replace(feedforward, intermediate_dim=4 * hidden),
            max_sequence_length=128,
            num_segments=1,
        ),
    )
    source = PretrainedConfig(path=str(arguments.vocabulary))
    make_tokenizer(folder / "tokenizer", {}, source)
    tokenizer = load_tokenizer(folder / "tokenizer")
    keras.utils.set_random_seed(0)
    model = build_model(
        config.model,
        config.objective,
        tokenizer.vocabulary_size,
        segments=False,
        dtype="float32",
    )
    trained = TrainedRun(config, tokenizer, model)
    write_saved_model(trained, folder / NAME / "1")
    write_warm_up(folder / NAME / "1", make_signature_task(trained))


@contextmanager
def served(model: Path, flags: list[str]) -> Iterator[RemoteClient]:
    """A client of a server in a process of its own."""
    command = [sys.executable, "-m", "transbeam", "serve", "--model", str(model)]
    ports = ["--port", "0", "--rest-port", "0", "--timeout", "120"]
    process = subprocess.Popen(
        [*command, *ports, *flags], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"gRPC +(\S+)", line):
                break
        else:
            raise RuntimeError("the server said no address")
        with connect(f"grpc://{found[1]}", NAME, timeout=120) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def texts() -> list[str]:
    """Of 8 to 128 tokens with the two that frame them; each word is one."""
    chance = np.random.default_rng(0)
    lengths = chance.integers(8, 129, 512) - 2
    return [" ".join(chance.choice(WORDS, length)) for length in lengths]


TEXTS = texts()


def ask(client: RemoteClient, number: int) -> object:
    """One question."""
    text = TEXTS[number % len(TEXTS)]
    return client.ask("serving_default", {"text": [text]})


def load(client: RemoteClient, seconds: float) -> list[Sample]:
    """All clients at once."""
    return closed_loop(lambda number: ask(client, number), CLIENTS, seconds)


def first_and_others(client: RemoteClient) -> tuple[float, float, float]:
    """Seconds of the first request, and the medians of the next ones.

    Those are 30 that follow each other at once, and 10 that come after half a second
    of rest each, as the first does: threads that sleep have to be woken up.
    """
    client.signatures()  # the connection is no part of it

    def taken(rest: float = 0.0) -> float:
        time.sleep(rest)
        began = time.perf_counter()
        ask(client, 0)
        return time.perf_counter() - began

    first, *others = (taken() for _ in range(31))
    rested = (taken(0.5) for _ in range(10))
    return first, statistics.median(others), statistics.median(rested)


def show(rounds: list[dict[str, list[Sample]]], work: str) -> None:
    """Prints the table of the loads."""
    print(heading(f"{work}, {CLIENTS} clients", "answers/s", "p50", "p99", "ratio"))
    rates = {name: [rate(one[name]) for one in rounds] for name in WAYS}
    for name in WAYS:
        times = [[1000 * sample.seconds for sample in one[name]] for one in rounds]
        ratios = [a / b for a, b in zip(rates[name], rates["without"], strict=True)]
        errors = sum(bool(s.error) for one in rounds for s in one[name])
        assert not errors, f"{name}: {errors} errors"
        print(
            row(
                name,
                spread(rates[name], ",.1f"),
                spread([float(np.percentile(t, 50)) for t in times], ",.0f", " ms"),
                spread([float(np.percentile(t, 99)) for t in times], ",.0f", " ms"),
                spread(ratios, ".2f", "x"),
            )
        )


def rate(samples: list[Sample]) -> float:
    """Answers a second, until the last one."""
    return len(samples) / max(sample.due + sample.seconds for sample in samples)


if __name__ == "__main__":
    main()
