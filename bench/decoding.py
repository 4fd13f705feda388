"""Time of the n-th token, with the cache and without it.

    python -m bench.decoding

GPT-2's smallest, batch 1, float32, random weights. With the cache: 32 tokens written
after a prompt of n - 32, less the time of the prompt. Without: one forward over n
tokens.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bench.pairs import heading, row, spread
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import decoder_steps

LENGTHS = (64, 128, 256, 512, 1024)
NEW, VOCABULARY = 32, 50_257


def main() -> None:
    """Prints a table: milliseconds of token n."""
    parser = argparse.ArgumentParser(prog="bench.decoding", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    decoder = build_decoder(
        load_run("configs/presets/gpt2_small.yaml").model, VOCABULARY
    )
    token_ids = np.random.default_rng(0).integers(5, VOCABULARY, (1, max(LENGTHS)))

    def writer(count: int) -> Callable[[tf.Tensor], tf.Tensor]:
        config = GenerationConfig(max_new_tokens=count)

        @tf.function(autograph=False)
        def write(token_ids: tf.Tensor) -> tf.Tensor:
            return generate(decoder_steps(decoder), token_ids, config=config)

        return write

    @tf.function(autograph=False)
    def read(token_ids: tf.Tensor) -> tf.Tensor:
        mask = tf.ones_like(token_ids)
        inputs = {"token_ids": token_ids, "padding_mask": mask}
        return decoder(inputs, training=False)["logits"]

    one, many = writer(1), writer(NEW + 1)
    print(heading("ms for token n", "with the cache", "without"))
    for length in LENGTHS:
        whole = tf.constant(token_ids[:, :length], tf.int32)
        prompt = whole[:, : length - NEW - 1]
        cached, uncached = [], []
        for number in range(arguments.rounds + 1):
            alone, more = seconds(one, prompt), seconds(many, prompt)
            anew = seconds(read, whole)
            if number:  # the first traces and warms up
                cached.append(1e3 * (more - alone) / NEW)
                uncached.append(1e3 * anew)
        cells = (spread(values, ".1f") for values in (cached, uncached))
        print(row(f"{length:,}", *cells), flush=True)


def seconds(work: Callable[[tf.Tensor], object], token_ids: tf.Tensor) -> float:
    """Measures the time of one call."""
    began = time.perf_counter()
    tf.nest.map_structure(np.asarray, work(token_ids))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
