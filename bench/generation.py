"""Greedy generation with GPT-2 (124 million weights): ours, KerasHub's, Hugging Face's.

    python -m bench.generation [--torch-python PATH]

`PATH` is the Python of an environment with torch and transformers. Prompts of 32
tokens, 64 new ones, weights at random, all in turns. First calls are shown as well.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import keras_hub
import numpy as np
import tensorflow as tf

from bench.answering import Answering
from bench.pairs import Pair, heading, spread
from configs.generation import GenerationConfig
from configs.load import load_run
from model.decoder import build_decoder
from model.generation.generate import generate
from model.generation.steps import decoder_steps

PROMPT, NEW, VOCABULARY = 32, 64, 50_257
PEER = Path(__file__).parent / "peers" / "hf_generation.py"
PROMPTS = np.random.default_rng(0).integers(5, VOCABULARY, (8, PROMPT)).astype("int32")
Run = Callable[[int], float]  # batch to seconds


def main() -> None:
    """Prints a table: a row for each peer, dtype and batch, and the first calls."""
    parser = argparse.ArgumentParser(prog="bench.generation", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(heading("work", "ours", "peer", "ratio"))
    for dtype in ("float32", "bfloat16"):
        runs: dict[str, Run] = {"ours": ours(dtype), "KerasHub": keras_hub_gpt2(dtype)}
        if arguments.torch_python:
            words = [arguments.torch_python, PEER, dtype]
            runs["Hugging Face"] = Answering(words).seconds
        for batch in (1, 8):
            measure(dtype, batch, runs, arguments.rounds)


def measure(dtype: str, batch: int, runs: dict[str, Run], rounds: int) -> None:
    """Prints a row for each peer."""
    first = {name: run(batch) for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(run(batch))
    mine = seconds.pop("ours")
    for peer, theirs in seconds.items():
        work = f"GPT-2 124M, {PROMPT}+{NEW} tokens, batch {batch}, {dtype}"
        print(
            Pair(work, peer, mine, theirs, batch * NEW, "tokens").as_row(), flush=True
        )
    calls = ", ".join(
        f"{name} {spread([taken], '.1f', ' s')}" for name, taken in first.items()
    )
    print(f"(first call, batch {batch}, {dtype}: {calls})", flush=True)


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
