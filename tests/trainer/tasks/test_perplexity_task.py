"""Sliding windows, and perplexities by hand."""

import math
from collections import Counter
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.tasks.task_samples import END, TOKENIZER
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.task_file import PerplexityTaskConfig
from transbeam.model.decoder import build_decoder
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_folder import build_tokenizer
from transbeam.trainer.tasks.perplexity_task import (
    evaluate_perplexity,
    sliding_windows,
)
from transbeam.trainer.tasks.task_results import TaskContext
from transbeam.trainer.tasks.wikitext import detokenize_wikitext


@given(st.integers(1, 200), st.integers(2, 40), st.data())
def test_each_token_is_predicted_once_after_enough_tokens(length, window, data):
    stride = data.draw(st.integers(1, window))
    counts = Counter()
    for part in sliding_windows(length, window, stride):
        assert part.end - 1 - part.start <= window
        counts.update(range(part.first, part.end))
        # As many tokens before the first prediction as the window holds.
        assert part.start == -1 or part.first - part.start > window - stride
        assert part.start == -1 or part.end - 1 - part.start == window
    assert counts == Counter(range(length))


# Of bytes; its texts begin with <s>, and end with </s>.
WITH_BEGIN = build_tokenizer(
    ByteBPEModel(pieces=("<s>", "<pad>", "</s>", "<unk>", *ALPHABET), merges=())
)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    config = DecoderConfig(
        num_layers=1,
        hidden_dim=16,
        max_sequence_length=8,
        attention=FullAttentionConfig(num_heads=2),
    )
    built = build_decoder(config, TOKENIZER.vocabulary_size)
    rng = np.random.default_rng(0)
    for weight in built.weights:
        weight.assign(weight + 0.4 * rng.standard_normal(weight.shape))
    return built


def context(model, tokenizer: Any = TOKENIZER, limit=None) -> TaskContext:
    config = RunConfig(
        name="r",
        data=DataConfig(source=TextSourceConfig(path="a"), sequence_length=8),
        objective=CausalConfig(),
        model=DecoderConfig(max_sequence_length=8),
    )
    return TaskContext(config, model, tokenizer, Console(quiet=True), 0, limit)


def books(tmp_path, *texts: str, **keys) -> PerplexityTaskConfig:
    (tmp_path / "books.txt").write_text("\n".join(texts), "utf-8")
    source = TextSourceConfig(path=str(tmp_path / "books.txt"), document="line")
    return PerplexityTaskConfig(name="books", source=source, **keys)


def nats(model, before: list[int], target: int) -> float:
    """Of one token after others, read by the model alone."""
    ids = np.array([before], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    logits = np.array(keras.ops.convert_to_numpy(model(inputs)["logits"])[0, -1], float)
    return float(np.log(np.exp(logits).sum()) - logits[target])


@pytest.mark.parametrize("stride", [1, 3, 8])
@pytest.mark.parametrize(
    ("tokenizer", "before"),
    [(TOKENIZER, END), (WITH_BEGIN, "<s>")],
    ids=["end_token", "begin_token"],
)
def test_windows_equal_a_token_at_a_time(model, tmp_path, stride, tokenizer, before):
    text = "some words of “it”"  # longer than the model reads
    found = evaluate_perplexity(
        context(model, tokenizer), books(tmp_path, text, stride=stride)
    )
    ids = tokenizer.tokenize([text]).values.numpy().tolist()
    whole, total = [tokenizer.pieces.index(before), *ids], 0.0
    for place, target in enumerate(ids):
        (part,) = (
            part
            for part in sliding_windows(len(ids), 8, stride)
            if part.first <= place < part.end
        )
        total += nats(model, whole[part.start + 1 : place + 1], target)
    expected = {
        "perplexity": math.exp(total / len(ids)),
        "word_perplexity": math.exp(total / 4),
        "byte_perplexity": math.exp(total / len(text.encode())),
        "bits_per_byte": total / math.log(2) / len(text.encode()),
    }
    scores = {name: interval.score for name, interval in found.scores.items()}
    assert scores == pytest.approx(expected, rel=1e-5)
    assert found.notes == {f"read after the token {before!r}": 1}


def test_a_text_has_the_same_nats_beside_others(model, tmp_path):
    texts = ["a", "some words of it and more", "b c", "x" * 30]
    together = evaluate_perplexity(context(model), books(tmp_path, *texts))
    for text, row in zip(texts, together.answers, strict=True):
        alone = evaluate_perplexity(context(model), books(tmp_path, text)).answers[0]
        assert row["nats"] == pytest.approx(alone["nats"], abs=1e-4)
        assert (row["words"], row["bytes"]) == (len(text.split()), len(text))


def test_wikitext_is_read_as_it_was_written_and_counted_as_it_stands(model, tmp_path):
    text = "2 @.@ 5 ( or more ) , it was"
    found = evaluate_perplexity(
        context(model), books(tmp_path, text, detokenize="wikitext")
    )
    (row,) = found.answers
    plain = "2.5 (or more), it was"
    assert detokenize_wikitext(text) == plain
    alone = evaluate_perplexity(context(model), books(tmp_path, plain)).answers[0]
    assert (row["nats"], row["tokens"]) == (alone["nats"], alone["tokens"])
    assert (row["words"], row["bytes"]) == (10, len(text))
    assert found.scores["word_perplexity"].score == pytest.approx(
        math.exp(row["nats"] / 10), rel=1e-5
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" \n = = Notes = = \n \n A @-@ b \n", "\n== Notes ==\n\nA-b\n"),
        ("10 @,@ 000 ; the players ' own { x }", "10,000; the players' own {x}"),
        ('it \'s 5 ° C : " cold " .', 'it\'s 5°C: "cold" .'),
    ],
)
def test_wikitext_by_hand(text, expected):
    assert detokenize_wikitext(text) == expected


def test_a_limit_counts_texts(model, tmp_path):
    task = books(tmp_path, "a", "b", "c")
    assert evaluate_perplexity(context(model, limit=2), task).units == 2


def test_a_window_that_the_model_does_not_read(model, tmp_path):
    with pytest.raises(ConfigError, match="window=9, and the model reads 8 tokens"):
        evaluate_perplexity(context(model), books(tmp_path, "a", window=9))


def test_texts_without_tokens_are_an_error(model, tmp_path):
    class Deaf:
        special = TOKENIZER.special

        def tokenize(self, texts):
            return TOKENIZER.tokenize(["" for _ in texts])

    with pytest.raises(DataError, match="no text of the task 'books' has a token"):
        evaluate_perplexity(context(model, Deaf()), books(tmp_path, "a"))
