"""Batches of continuations: each gets the score that it has alone."""

from typing import Any

import numpy as np
import pytest

from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.trainer.tasks import continuation_scorer
from transbeam.trainer.tasks.continuation_scorer import (
    Continuations,
    ContinuationScorer,
)


class CountingBar(SilentBar):
    """A progress bar that keeps the numbers by which it advances."""

    def __init__(self):
        self.steps: list[float] = []

    def advance(self, count: float = 1) -> None:
        self.steps.append(count)


SMALL: dict[str, Any] = {
    "num_layers": 1,
    "hidden_dim": 16,
    "max_sequence_length": 50,
    "attention": FullAttentionConfig(num_heads=2),
}
BEGIN = 3


def random_requests() -> list[Continuations]:
    rng = np.random.default_rng(0)

    def ids(low: int, high: int) -> np.ndarray:
        return rng.integers(1, 40, rng.integers(low, high)).astype(np.int32)

    return [
        Continuations(ids(1, 46), [ids(1, 5) for _ in range(rng.integers(1, 5))])
        for _ in range(20)
    ]


def log_probabilities(logits) -> np.ndarray:
    logits = np.array(logits, np.float64)[0]
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_groups_fit_into_memory_and_scores_belong_to_their_request(monkeypatch):
    model = build_decoder(DecoderConfig(**SMALL), 40)
    requests = random_requests()
    scorer, bar = ContinuationScorer(model), CountingBar()
    # Of a vocabulary of 40: 12 rows of 4 tokens.
    monkeypatch.setattr(continuation_scorer, "_MOST_LOGITS", 12 * 4 * 40)
    found = scorer.score(requests, bar)
    assert sum(bar.steps) == 20
    assert len(bar.steps) >= 4
    assert max(bar.steps) > 1
    for request, scores in zip(requests, found, strict=True):
        for text, score in zip(request.texts, scores, strict=True):
            whole = np.concatenate([request.context, text])[np.newaxis]
            inputs = {"token_ids": whole, "padding_mask": np.ones_like(whole)}
            each = log_probabilities(model(inputs)["logits"])
            places = np.arange(len(request.context) - 1, whole.shape[1] - 1)
            expected = each[places, text].sum()
            assert score == pytest.approx(expected, abs=2e-5)


def test_an_encoder_decoder_goes_on_in_its_decoder():
    model = build_seq2seq(Seq2SeqModelConfig(num_decoder_layers=1, **SMALL), 40)
    requests = random_requests()
    scorer = ContinuationScorer(model, first_token=BEGIN, longest=50)
    found = scorer.score(requests, SilentBar())
    for request, scores in zip(requests, found, strict=True):
        for text, score in zip(request.texts, scores, strict=True):
            inputs = {
                "encoder_token_ids": request.context[np.newaxis],
                "decoder_token_ids": np.insert(text[:-1], 0, BEGIN)[np.newaxis],
            }
            for name in ("encoder", "decoder"):
                mask = np.ones_like(inputs[f"{name}_token_ids"])
                inputs[f"{name}_padding_mask"] = mask
            each = log_probabilities(model(inputs)["logits"])
            expected = each[np.arange(len(text)), text].sum()
            assert score == pytest.approx(expected, abs=2e-5)
