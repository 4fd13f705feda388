"""Texts that a server writes side by side: `python -m bench.streaming VOCABULARY`.

GPT-2 with 124 million weights, at random, exported and behind `transbeam serve`: 16
clients, who come one after another and ask for 64 new tokens each, streamed by
continuous batching; against the same requests one at a time, streamed, and by the
signature `generate` with its whole loop in the graph. In turns. VOCABULARY is the
folder of GPT-2's tokenizer.
"""

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.pairs import heading, row, spread
from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from transbeam.configs.loader.yaml_config import load_run  # noqa: E402
from transbeam.configs.schema.tokenizer import PretrainedConfig  # noqa: E402
from transbeam.model.build import build_model  # noqa: E402
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer  # noqa: E402
from transbeam.pipeline.tokenizers.training.train_tokenizer import make_tokenizer  # noqa: E402
from transbeam.serving.base.stream_events import StreamPart  # noqa: E402
from transbeam.serving.base.trained_run import TrainedRun  # noqa: E402
from transbeam.serving.client.connect import connect  # noqa: E402
from transbeam.serving.client.interface import RemoteClient  # noqa: E402
from transbeam.serving.export.saved_model_writer import write_saved_model  # noqa: E402
from transbeam.serving.server.background_server import in_background  # noqa: E402
from transbeam.serving.server.configuration.limits import Limits  # noqa: E402
from transbeam.serving.server.configuration.settings import ServerSettings  # noqa: E402
from transbeam.serving.server.models.catalog import ModelSettings  # noqa: E402

CLIENTS, NEW = 16, 64
ALONE = 3  # of the requests, for what comes one after another
PAUSE = 0.1  # seconds from one client to the next
WORDS = ["the", "value", "of", "an", "array", "is", "returned", "if", "it", "empty"]


class Rate:
    """Tokens and seconds, and when each stream had its first token."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.tokens = 0
        self.first: list[float] = []

    @property
    def per_second(self) -> float:
        """Tokens, from the first request to the last answer."""
        return self.tokens / (time.perf_counter() - self.began)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    arguments = parser.parse_args()
    with served(arguments.vocabulary, arguments.layers) as client:
        ways: dict[str, Callable[[], Rate]] = {
            f"{CLIENTS} clients, streamed": lambda: together(client),
            "one at a time, streamed": lambda: one_by_one(client),
            "one at a time, `generate`": lambda: by_generate(client),
        }
        for way in ways.values():
            way()
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                rate = way()
                found[name].append((rate.per_second, statistics.median(rate.first)))
    ours = [rate for rate, _ in found[f"{CLIENTS} clients, streamed"]]
    print(heading(f"GPT-2 124M, about 32 + {NEW} tokens", "tokens/s", "first", "ratio"))
    for name, rates in found.items():
        ratios = [mine / its for mine, (its, _) in zip(ours, rates, strict=True)]
        print(
            row(
                name,
                spread([rate for rate, _ in rates], ".1f"),
                spread([1000 * first for _, first in rates], ".0f", " ms"),
                spread(ratios, ".2f", "x"),
            )
        )
    versions = f"tensorflow {tf.__version__}, keras {keras.__version__}"
    print(f"\nPython {platform.python_version()}, {versions}; {platform.machine()}.")


@contextmanager
def served(vocabulary: Path, layers: int) -> Iterator[RemoteClient]:
    """A client of the model."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "gpt2"
        write_saved_model(
            gpt2(vocabulary, Path(folder) / "tokenizer", layers), models / "1"
        )
        settings = ServerSettings(
            models=(ModelSettings("gpt2", models),),
            port=0,
            rest_port=0,
            limits=Limits(answer_seconds=600),
        )
        with (
            in_background(settings) as addresses,
            connect(addresses.rest, "gpt2", timeout=600) as client,
        ):
            yield client


def gpt2(vocabulary: Path, folder: Path, layers: int) -> TrainedRun:
    """As the preset describes it, with weights at random."""
    config = load_run(Path("configs/presets/gpt2_small.yaml"))
    config = replace(config, model=replace(config.model, num_layers=layers))
    make_tokenizer(folder, {}, PretrainedConfig(path=str(vocabulary)))
    tokenizer = load_tokenizer(folder)
    keras.utils.set_random_seed(0)
    model = build_model(
        config.model, config.objective, tokenizer.vocabulary_size, dtype="float32"
    )
    return TrainedRun(config, tokenizer, model)


def texts(number: int) -> list[str]:
    """Of about 32 tokens each."""
    generator = np.random.default_rng(0)
    return [
        " ".join(generator.choice(WORDS, int(generator.integers(24, 40))))
        for _ in range(number)
    ]


def together(client: RemoteClient) -> Rate:
    """Each client comes a little later than the one before."""
    rate = Rate()

    def ask(numbered: tuple[int, str]) -> None:
        number, text = numbered
        time.sleep(PAUSE * number)
        listen(client, text, rate)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(ask, enumerate(texts(CLIENTS))))
    return rate


def one_by_one(client: RemoteClient) -> Rate:
    """The first few of the same texts, each after the end of the one before."""
    rate = Rate()
    for text in texts(ALONE):
        listen(client, text, rate)
    return rate


def by_generate(client: RemoteClient) -> Rate:
    """The same by the signature that has its loop in the graph."""
    rate = Rate()
    for text in texts(ALONE):
        began = time.perf_counter()
        answer = client.ask("generate", {"text": [text], **wishes([NEW])})
        rate.first.append(time.perf_counter() - began)
        rate.tokens += int(answer["length"][0])
    return rate


def wishes(numbers: Sequence[int]) -> dict[str, Sequence[object]]:
    """The likeliest tokens."""
    rows = len(numbers)
    found: dict[str, Sequence[object]] = {"max_new_tokens": numbers}
    for name, value in (
        ("temperature", 0.0),
        ("top_k", 0),
        ("top_p", 1.0),
        ("seed", 0),
    ):
        found[name] = [value] * rows
    return {**found, "stop": [""] * rows}


def listen(client: RemoteClient, text: str, rate: Rate) -> None:
    """Has one text written."""
    began = time.perf_counter()
    count = 0
    for part in client.stream({"text": text, "max_new_tokens": NEW}):
        if isinstance(part, StreamPart):
            if not count:
                rate.first.append(time.perf_counter() - began)
            count += 1
    rate.tokens += count


if __name__ == "__main__":
    main()
