"""Greedy generation with GPT-2 (124 million weights): ours, KerasHub's, Hugging Face's.

    python -m bench.generation [--torch-python PATH]

`PATH` is the Python of an environment with torch and transformers. Prompts of 32
tokens, 64 new ones, weights at random, all in turns. First calls are shown as well, and
what share of the memory's bandwidth reading the weights takes at batch 1.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import keras_hub
import numpy as np
import tensorflow as tf

from bench.answering import Answering
from bench.pairs import Pair, heading, spread
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import decoder_steps

PROMPT, NEW, VOCABULARY = 32, 64, 50_257
PEER = Path(__file__).parent / "peers" / "hf_generation.py"
PROMPTS = np.random.default_rng(0).integers(5, VOCABULARY, (8, PROMPT)).astype("int32")
BYTES = {"float32": 4, "bfloat16": 2}
WEIGHTS = 124_439_808 - 1_024 * 768  # what a token reads: all but the positions
Run = Callable[[int], float]  # batch to seconds
Name = tuple[str, str]  # who, and in what dtype


def main() -> None:
    """Prints a table: a row for each peer, dtype and batch, and the first calls."""
    parser = argparse.ArgumentParser(prog="bench.generation", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    runs = writers(arguments.torch_python)
    peers = sorted({who for who, _ in runs} - {"ours"})
    print(heading("work", "ours", "peer", "ratio"))
    for batch in (1, 8):
        first = {name: run(batch) for name, run in runs.items()}
        seconds: dict[Name, list[float]] = {name: [] for name in runs}
        for _ in range(arguments.rounds):
            for name, run in runs.items():
                seconds[name].append(run(batch))
        for peer in peers:
            for dtype in BYTES:
                show(seconds, batch, dtype, (peer, dtype))
        if batch == 1 and arguments.torch_python:
            show(seconds, batch, "bfloat16", ("Hugging Face", "float32"))
        for (who, dtype), taken in first.items():
            print(f"(first call, batch {batch}, {dtype}, {who}: {taken:.1f} s)")
        if batch == 1:
            show_bandwidth(seconds)


def writers(torch_python: Path | None) -> dict[Name, Run]:
    """All who take turns, each in both dtypes."""
    runs: dict[Name, Run] = {}
    for dtype in BYTES:
        runs["ours", dtype] = ours(dtype)
        runs["KerasHub", dtype] = keras_hub_gpt2(dtype)
        if torch_python:
            peer = Answering([torch_python, PEER, dtype])
            runs["Hugging Face", dtype] = peer.seconds
    return runs


def show(
    seconds: Mapping[Name, list[float]], batch: int, dtype: str, peer: Name
) -> None:
    """Prints our row beside a peer's."""
    work = f"GPT-2 124M, {PROMPT}+{NEW} tokens, batch {batch}, {dtype}"
    who, other = peer
    name = who if other == dtype else f"{who} {other}"
    pair = Pair(
        work, name, seconds["ours", dtype], seconds[peer], batch * NEW, "tokens"
    )
    print(pair.as_row(), flush=True)


def show_bandwidth(seconds: Mapping[Name, Sequence[float]]) -> None:
    """Prints how fast weights are read at batch 1, beside a plain sum over memory."""
    numbers = tf.ones(2**28)  # 1 GiB, beyond any cache
    add = tf.function(lambda: tf.reduce_sum(numbers))
    rates = []
    for _ in range(6):
        began = time.perf_counter()
        add().numpy()
        rates.append(2**30 / 1e9 / (time.perf_counter() - began))
    print(f"(memory: a sum over 1 GiB reads {spread(rates[1:], '.1f', ' GB/s')})")
    for (who, dtype), taken in seconds.items():
        rate = WEIGHTS * BYTES[dtype] * NEW / statistics.median(taken) / 1e9
        print(f"(weights read, batch 1, {dtype}, {who}: {rate:.1f} GB/s)")


def ours(dtype: str) -> Run:
    """Our decoder, in one graph with its loop."""
    run = load_run("configs/presets/gpt2_small.yaml")
    decoder = build_decoder(run.model, VOCABULARY, dtype=dtype)
    config = GenerationConfig(max_new_tokens=NEW)

    @tf.function(autograph=False)
    def write(token_ids: tf.Tensor) -> tf.Tensor:
        return generate(decoder_steps(decoder), token_ids, config=config)["token_ids"]

    return _timed(lambda batch: write(tf.constant(PROMPTS[:batch])))


def keras_hub_gpt2(dtype: str) -> Run:
    """KerasHub's GPT-2."""
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=VOCABULARY,
        num_layers=12,
        num_heads=12,
        hidden_dim=768,
        intermediate_dim=3072,
        max_sequence_length=1024,
        dtype=dtype,
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile(sampler="greedy", jit_compile=False)

    def write(batch: int) -> np.ndarray:
        token_ids = np.pad(PROMPTS[:batch], ((0, 0), (0, NEW)))
        mask = np.tile(np.arange(PROMPT + NEW) < PROMPT, (batch, 1)).astype("int32")
        inputs = {"token_ids": token_ids, "padding_mask": mask}
        return model.generate(inputs, stop_token_ids=None)["token_ids"]

    return _timed(write)


def _timed(work: Callable[[int], object]) -> Run:
    def run(batch: int) -> float:
        began = time.perf_counter()
        np.asarray(work(batch))
        return time.perf_counter() - began

    return run


if __name__ == "__main__":
    main()
