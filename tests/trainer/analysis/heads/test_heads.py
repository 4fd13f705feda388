"""The part `heads`: means from the maps, heads that stand out, what has no metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.analysis.contexts import make_config
from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.seq2seq import build_seq2seq
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.heads.head_means import HeadMean
from transbeam.trainer.analysis.heads.heads import (
    analyze_heads,
    find_heads,
    summarize_heads,
)
from transbeam.trainer.metrics.confidence_intervals import Interval

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    *"abcdefghijklmnopqrstuvwxyz",
]
SHAPE: dict[str, Any] = {
    "hidden_dim": 8,
    "max_sequence_length": 128,
    "attention": FullAttentionConfig(num_heads=2),
}


class CountingConsole(Console):
    """Remembers the progress instead of showing it."""

    def __init__(self):
        super().__init__(quiet=True)
        self.total = self.done = 0

    def progress(self, label, total, unit, start=0.0):
        self.total = total
        return _Counting(self)


class _Counting:
    def __init__(self, console):
        self._console = console

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def advance(self, count=1):
        self._console.done += count


def randomised(model):
    generator = np.random.default_rng(7)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.6, weight.shape))
    return model


def context(config, model, lengths=(18, 3, 9, 5, 12), seed=1, **rows) -> Any:
    generator = np.random.default_rng(0)

    def text(length):
        words = generator.integers(5, len(PIECES), length - 2)
        return np.array([2, *words, 3], np.int32)

    names = rows.get("names", ("token_ids",))
    return AnalysisContext(
        config=make_config(config),
        model=randomised(model),
        tokenizer=WordPieceTokenizer(PIECES),
        texts=AnalyzedTexts(
            "some", tuple({name: text(n) for name in names} for n in lengths)
        ),
        console=CountingConsole(),
        seed=seed,
        run_folder=Path("run"),
        max_tokens=64,
    )


@pytest.fixture(scope="module")
def encoder() -> AnalysisContext:
    config = EncoderConfig(num_layers=2, **SHAPE)
    return context(config, build_encoder(config, len(PIECES)))


@pytest.fixture(scope="module")
def part(encoder):
    return analyze_heads(encoder, distant_tokens=4)


def table(part, key="metrics") -> dict[tuple, tuple]:
    return {
        tuple(row[:3]): tuple(row[3:])
        for row in zip(*part.tables[key].to_pydict().values(), strict=True)
    }


def test_means_from_the_maps(encoder, part):
    expected: dict[tuple, list] = {}
    for row in encoder.texts.rows:
        ids = row["token_ids"][None]
        maps = attention_probabilities(
            encoder.model, {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        )
        length = ids.shape[1]
        distance = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        for layer, found in maps.items():
            for head, a in enumerate(np.asarray(found)[0].astype("float64")):
                entropy = -(a * np.log(a)).sum(axis=1).mean()
                values = {
                    "entropy": entropy,
                    "entropy_share": entropy / np.log(length),
                    "confidence": a.max(axis=1).mean(),
                    "confidence_without_end": a[:, ids[0] != 3].max(axis=1).mean(),
                    "distance": (a * distance).sum(axis=1).mean(),
                    "distant": (a * (distance > 4)).sum(axis=1).mean(),
                    "previous": np.trace(a, -1) / length,
                    "next": np.trace(a, 1) / length,
                    "self": np.trace(a) / length,
                    "begin": a[:, 0].mean(),
                    "first": a[:, 0].mean(),
                    "end": a[:, -1].mean(),
                    "end_to_end": a[-1, -1],
                    "special": a[:, [0, -1]].sum(axis=1).mean(),
                    "punctuation": a[:, ids[0] == 5].sum(axis=1).mean(),
                }
                for metric, value in values.items():
                    expected.setdefault((layer, head, metric), []).append(value)
    found = table(part)
    for key, values in expected.items():
        mean, low, high, texts = found[key]
        assert mean == pytest.approx(np.mean(values), rel=1e-4, abs=1e-6), key
        assert low - 1e-9 <= mean <= high + 1e-9
        assert min(values) - 1e-5 <= low
        assert high <= max(values) + 1e-5
        assert texts == 5
    names = {metric for *_, metric in found}
    assert names == {metric for *_, metric in expected} | {
        "sparsity",
        "rare",
        "content",
    }
    for layer, head, _ in found:
        parts = ("special", "punctuation", "rare", "content")
        total = sum(found[layer, head, name][0] for name in parts)
        assert total == pytest.approx(1, rel=1e-4)


def test_offsets_have_a_table(part):
    found = table(part, "offsets")
    assert len(found) == 2 * 2 * 17
    metrics = table(part)
    for layer, head, offset in found:
        if offset == -1:
            key = (layer, head, "previous")
            assert found[layer, head, offset] == metrics[key]


def test_progress_and_figures(encoder, part):
    assert encoder.console.total == 5
    assert encoder.console.done % 5 == 0
    assert encoder.console.done > 0
    assert sorted(part.figures) == ["entropy", "maps", "offsets"]
    assert part.numbers["heads"] == 4
    assert part.summary.startswith("Of 4 heads, ")
    assert "induction_heads" not in part.numbers
    assert not part.notes


@eagerly
def test_the_seed_decides():
    config = EncoderConfig(num_layers=1, **SHAPE)
    model = build_encoder(config, len(PIECES))
    first, again, other = (
        analyze_heads(context(config, model, lengths=range(4, 16), seed=seed))
        for seed in (1, 1, 2)
    )
    assert again.tables["metrics"].equals(first.tables["metrics"])
    assert again.numbers == first.numbers
    assert not other.tables["metrics"].equals(first.tables["metrics"])


@eagerly
def test_a_decoder_has_scores_of_detectors():
    config = DecoderConfig(num_layers=1, **SHAPE)
    model = build_decoder(config, len(PIECES))
    texts = context(config, model, lengths=[60] * 3)
    for row in texts.texts.rows:
        row["token_ids"][row["token_ids"] == 31] = 30  # the last piece does not occur
    part = analyze_heads(texts)
    found = table(part)
    path = "decoder_layer_0/self_attention"
    for metric in ("previous_token", "duplicate_token", "induction"):
        assert found[path, 0, metric][3] == 32  # texts of repeated tokens
        assert 0 <= found[path, 0, metric][0] <= 1
    assert found[path, 0, "entropy"][3] == 3
    shares = [head["share"] for head in part.numbers["induction_heads"]]
    assert shares == sorted(found[path, h, "induction"][0] for h in (0, 1))[::-1]
    assert "highest induction score" in part.summary
    assert len(texts.tokenizer.ordinary_ids) == 27
    said = "25 random tokens, repeated 4 times, drawn from 26 pieces"
    assert any(said in note for note in part.notes)
    # Of too few pieces all of the vocabulary are drawn.
    few = analyze_heads(context(config, model, lengths=[5]))
    assert any("drawn from 27 pieces" in note for note in few.notes)


@eagerly
def test_a_short_model_has_shorter_repetitions():
    shape = {**SHAPE, "max_sequence_length": 9}
    config = DecoderConfig(num_layers=1, **shape)
    model = build_decoder(config, len(PIECES))
    part = analyze_heads(context(config, model, lengths=[9, 4]))
    assert any("of 2 random tokens" in note for note in part.notes)


def test_heads_that_stand_out():
    def mean(head, metric, share):
        interval = Interval(share, share - 0.1, share + 0.1)
        return HeadMean("encoder_layer_0/self_attention", head, metric, interval, 5)

    means = [mean(head, "entropy", 1.0) for head in range(4)]
    means += [mean(0, -1, 0.85), mean(0, 0, 0.1), mean(1, -1, 0.2), mean(1, 0, 0.79)]
    means += [mean(2, 1, 0.9), mean(3, -2, 0.8)]
    means += [mean(0, "end", 0.1), mean(1, "end", 0.6)]
    found = find_heads(means)
    assert found["heads"] == 4
    assert [(x["head"], x["offset"]) for x in found["positional_heads"]] == [
        (2, 1),
        (0, -1),
        (3, -2),
    ]
    assert [x["head"] for x in found["end_heads"]] == [1]
    assert summarize_heads(means) == (
        "Of 4 heads, 2 put at least 80% of their weight on the previous or the next "
        "token, 1 at least 60% on end tokens; the mean entropy is 1.00 nats."
    )


@eagerly
def test_both_stacks():
    config = Seq2SeqModelConfig(num_layers=1, num_decoder_layers=2, **SHAPE)
    names = ("encoder_token_ids", "decoder_token_ids")
    model = build_seq2seq(config, len(PIECES))
    part = analyze_heads(context(config, model, lengths=(9, 4), names=names))
    layers = list(dict.fromkeys(layer for layer, *_ in table(part)))
    assert layers[0] == "encoder_layer_0/self_attention"
    assert sorted(layers[1:]) == [
        f"decoder_layer_{number}/{kind}_attention"
        for number in range(2)
        for kind in ("cross", "self")
    ]
    assert {layer for layer, *_ in table(part, "offsets")} == {
        layer for layer in layers if layer.endswith("self_attention")
    }
    assert any("of two texts" in note for note in part.notes)


@eagerly
def test_projections():
    attention = LowRankAttentionConfig(num_heads=2, rank=4)
    config = EncoderConfig(num_layers=1, **{**SHAPE, "attention": attention})
    part = analyze_heads(context(config, build_encoder(config, len(PIECES))))
    metrics = {metric for *_, metric in table(part)}
    assert metrics == {"entropy", "entropy_share", "confidence"}
    assert part.tables["offsets"].num_rows == 0
    assert "low-rank attention" in part.notes[0]
    assert sorted(part.figures) == ["entropy", "maps"]


def test_no_probabilities():
    attention = KernelAttentionConfig(num_heads=2)
    config = EncoderConfig(num_layers=1, **{**SHAPE, "attention": attention})
    with pytest.raises(ConfigError, match="kernel attention"):
        analyze_heads(context(config, build_encoder(config, len(PIECES))))


@pytest.mark.parametrize(
    "options",
    [{"sparsity_threshold": 1.5}, {"distant_tokens": 0}, {"rare_quantile": -0.1}],
    ids=str,
)
def test_options_out_of_range(encoder, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        analyze_heads(encoder, **options)
