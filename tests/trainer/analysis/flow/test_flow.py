"""The part `flow`: tables against the computations, both stacks, and what it omits."""

import keras
import numpy as np
import pytest

from tests.model.conftest import small_config
from tests.trainer.analysis.flow.contexts import TOKENIZER, small_context
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.seq2seq import build_seq2seq
from transbeam.trainer.analysis.flow.flow import analyze_flow

SIZE = TOKENIZER.vocabulary_size
COLUMNS = ["text", "stack", "layer", "query", "key", "query_token", "key_token"]


def row(length: int, **changes) -> dict[str, np.ndarray]:
    ids = np.arange(length, dtype=np.int32) % 11 + SIZE - 11
    return {"token_ids": ids, **changes}


def encoder_context(*lengths: int, **changes):
    config = small_config(num_segments=0, max_sequence_length=80, **changes)
    model = build_encoder(config, SIZE)
    return small_context(model, config, tuple(row(length) for length in lengths))


def test_tables_of_an_encoder():
    context = encoder_context(5, 3)
    part = analyze_flow(context, threshold=0.1)
    rollout, flow, links = (part.tables[x] for x in ("rollout", "flow", "links"))
    assert rollout.column_names == [*COLUMNS, "weight", "by_receptive_field"]
    assert links.column_names == [*COLUMNS, "weight"]
    assert len(rollout) == 2 * (25 + 9)  # two layers
    assert len(flow) == 25 + 9
    assert set(flow["layer"].to_pylist()) == {1}

    ids = context.texts.rows[1]["token_ids"][None]
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    expected = np.eye(3)
    for maps in attention_probabilities(context.model, inputs).values():
        expected = (np.asarray(maps)[0].mean(axis=0) + np.eye(3)) / 2 @ expected
    found = [
        x["weight"] for x in rollout.to_pylist() if x["text"] == 1 and x["layer"] == 1
    ]
    np.testing.assert_allclose(np.reshape(found, (3, 3)), expected, atol=1e-5)
    pieces = TOKENIZER.pieces
    for x in links.to_pylist():
        tokens = context.texts.rows[x["text"]]["token_ids"]
        assert x["weight"] >= 0.1
        assert x["query_token"] == pieces[tokens[x["query"]]]
        assert x["key_token"] == pieces[tokens[x["key"]]]
    sums = np.array(flow["weight"].to_pylist())[:25].reshape(5, 5).sum(axis=1)
    np.testing.assert_allclose(sums, 1, rtol=1e-5)


def test_figures_are_drawn():
    part = analyze_flow(encoder_context(12))
    assert sorted(part.figures) == ["encoder_rollout", "encoder_sankey"]
    for figure in part.figures.values():
        figure.canvas.draw()
    heat = part.figures["encoder_rollout"].axes[0]
    labels = [label.get_text() for label in heat.get_yticklabels()]
    assert labels[:2] == ["a", "b"]
    assert labels[10] == r"\$"  # no formula
    sankey = part.figures["encoder_sankey"].axes[0]
    assert len(sankey.collections[0].get_paths()) == len(part.tables["links"])


def test_long_texts_are_left_out_and_counted():
    part = analyze_flow(encoder_context(70, 4, 65, 6, 2), max_texts=2)
    assert part.numbers["texts"] == [1, 3]
    assert part.notes == (
        "2 of 5 texts have more than 64 tokens and are left out: flow takes a maximum "
        "flow for each pair of tokens",
    )


def test_only_long_texts():
    part = analyze_flow(encoder_context(70))
    assert not part.tables
    assert not part.figures
    assert part.summary == "No text has rollout or flow."


def test_a_causal_model():
    config = DecoderConfig(
        num_layers=2, hidden_dim=8, attention=FullAttentionConfig(num_heads=2)
    )
    model = build_decoder(config, SIZE)
    part = analyze_flow(small_context(model, config, (row(4),)))
    table = part.tables["flow"].to_pylist()
    assert len(table) == 10
    assert all(x["key"] <= x["query"] for x in table)
    last = [x for x in table if x["query"] == 3]
    divided = np.array([x["weight"] / (4 - x["key"]) for x in last])
    found = [x["by_receptive_field"] for x in last]
    np.testing.assert_allclose(found, divided / divided.sum(), rtol=1e-5)


def test_both_stacks():
    config = Seq2SeqModelConfig(
        hidden_dim=8,
        num_layers=1,
        num_decoder_layers=2,
        attention=FullAttentionConfig(num_heads=2),
    )
    model = build_seq2seq(config, SIZE)
    ids = row(6)["token_ids"]
    rows = ({"encoder_token_ids": ids, "decoder_token_ids": ids[:3]},)
    part = analyze_flow(small_context(model, config, rows))
    found = {
        (x["stack"], x["layer"]): x["query"] for x in part.tables["rollout"].to_pylist()
    }
    assert found == {("encoder", 0): 5, ("decoder", 0): 2, ("decoder", 1): 2}
    assert len(part.figures) == 4


def test_low_rank_attention_has_no_weights_of_tokens():
    part = analyze_flow(encoder_context(5, attention=LowRankAttentionConfig(rank=2)))
    assert not part.tables
    assert "encoder_layer_0/self_attention" in part.notes[0]
    assert "low-rank attention has no weights of tokens" in part.notes[0]


def test_windows_let_through_what_is_seen_layer_by_layer():
    """A window of 2 passes a token one position on in each layer."""
    window = SlidingWindowAttentionConfig(num_heads=2, window_size=2)
    context = encoder_context(9, attention=window)
    part = analyze_flow(context)
    reached = {
        layer: {
            abs(row["query"] - row["key"])
            for row in part.tables["rollout"].to_pylist()
            if row["layer"] == layer and row["weight"] > 0
        }
        for layer in range(context.config.model.num_layers)
    }
    assert reached == {layer: set(range(layer + 2)) for layer in reached}
    assert len(reached) > 1


def test_a_window_over_a_whole_text_flows_as_full_attention():
    rollouts = []
    for attention in (
        FullAttentionConfig(num_heads=2),
        SlidingWindowAttentionConfig(num_heads=2, window_size=32),
    ):
        table = analyze_flow(encoder_context(5, attention=attention)).tables["flow"]
        rollouts.append(np.array(table["weight"]))
    np.testing.assert_allclose(*rollouts, atol=1e-5)


def test_kernel_attention_is_refused():
    kernel = KernelAttentionConfig(num_heads=2)
    with pytest.raises(ConfigError, match="kernel attention never computes any"):
        analyze_flow(encoder_context(5, attention=kernel))


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"top_k": 0}])
def test_options_out_of_range(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        analyze_flow(encoder_context(3), **options)


def test_the_model_is_left_as_it_was():
    context = encoder_context(5)
    before = [keras.ops.convert_to_numpy(x) for x in context.model.weights]
    analyze_flow(context)
    for weight, value in zip(context.model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
