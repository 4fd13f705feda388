"""Time of scoring choices with a shared context, against each choice read whole.

    python -m bench.choices [--choices 4] [--shots 4] [--questions 32] [--rounds 5]

Both ways score the same ids with the same model, GPT-2's architecture of 6 layers of
384 with random weights, in batches sorted by length, in turns in one process. A shot
and a question have 40 to 80 tokens, a choice 2 to 8. What each compiles is compiled in
a round that does not count. Prints the medians of the rounds with their range, the
ratio of each round, and the largest difference of a log-likelihood.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from bench.pairs import heading, row, spread
from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig, LayerNormConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.generation.continuation_scores import token_scores
from transbeam.trainer.tasks.continuation_scorer import (
    Continuations,
    ContinuationScorer,
    padded,
)

VOCABULARY_SIZE = 50_257
AT_ONCE = 8  # whole texts in a batch; more were slower


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Times choices in two ways.")
    for name, default in (
        ("choices", 4),
        ("shots", 4),
        ("questions", 32),
        ("rounds", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    model = build_decoder(
        DecoderConfig(
            num_layers=6,
            hidden_dim=384,
            max_sequence_length=1024,
            attention=FullAttentionConfig(num_heads=6),
            norm=LayerNormConfig(placement="pre"),
            feedforward=DenseFeedForwardConfig(intermediate_dim=1536),
        ),
        VOCABULARY_SIZE,
    )
    requests = make_requests(given.questions, given.shots, given.choices)
    scorer, whole = ContinuationScorer(model), WholeTexts(model)
    ways = [
        partial(scorer.score, requests, SilentBar()),
        partial(whole.score, requests),
    ]
    ours, theirs = (np.concatenate(way()) for way in ways)
    times: list[list[float]] = [[], []]
    for _ in range(given.rounds):
        for seconds, way in zip(times, ways, strict=True):
            start = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - start)
    ratios = [slow / fast for fast, slow in zip(*times, strict=True)]
    print(heading("", "shared context", "each choice whole", "whole / shared"))
    what = f"{given.choices} choices, {given.shots} shots, {given.questions} questions"
    print(
        row(
            what,
            *(spread(of, ".2f", " s") for of in times),
            spread(ratios, ".2f", "x"),
        )
    )
    print(f"largest difference: {np.abs(ours - theirs).max():.1e} nats")


def make_requests(questions: int, shots: int, choices: int) -> list[Continuations]:
    """Draws contexts and choices."""
    rng = np.random.default_rng(0)

    def ids(low: int, high: int) -> np.ndarray:
        return rng.integers(1, VOCABULARY_SIZE, rng.integers(low, high)).astype("int32")

    return [
        Continuations(
            np.concatenate([ids(40, 80) for _ in range(shots + 1)]),
            [ids(2, 8) for _ in range(choices)],
        )
        for _ in range(questions)
    ]


class WholeTexts:
    """Scores each choice by reading it with its whole context."""

    def __init__(self, model: keras.Model):
        def score(token_ids, padding_mask):
            inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
            logits = model(inputs, training=False)["logits"]
            return token_scores(logits[:, :-1], token_ids[:, 1:])

        free = tf.TensorSpec([None, None], "int32")
        self._score = tf.function(score, input_signature=[free, free], autograph=False)

    def score(self, requests: Sequence[Continuations]) -> list[np.ndarray]:
        """Returns the log-likelihoods of each request's continuations."""
        texts = [
            (np.concatenate([request.context, text]), len(text))
            for request in requests
            for text in request.texts
        ]
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number][0]))
        found = np.zeros(len(texts))
        for start in range(0, len(order), AT_ONCE):
            group = order[start : start + AT_ONCE]
            rows = [texts[number][0] for number in group]
            ids, mask = padded(rows, max(map(len, rows)))
            scores = self._score(tf.constant(ids), tf.constant(mask)).numpy()
            for number, of in zip(group, scores, strict=True):
                text, count = texts[number]
                found[number] = of[len(text) - 1 - count : len(text) - 1].sum()
        counts = [len(request.texts) for request in requests]
        return np.split(found, np.cumsum(counts)[:-1])


if __name__ == "__main__":
    main()
