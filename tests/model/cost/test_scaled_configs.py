"""Runs of other sizes: what grows, and what stays."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.run_file import preset_files
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import EncoderConfig
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.scaled_configs import AXES, own_size, scale, sizes

ROOT = Path(__file__).parents[3]
TINY = sorted((ROOT / "configs/tiny").glob("*.yaml"))


def tiny(name: str, *overrides: str):
    file = ROOT / f"configs/tiny/{name}.yaml"
    return load_run(file, overrides, with_model=True)


def weights(run) -> dict[str, int]:
    return count_cost(run, vocabulary_size=100)["parameters"]["parts"]


def work(run) -> dict[str, int]:
    cost = count_cost(run, vocabulary_size=100)
    return cost["flops"]["per_sequence"]["forward"]


def test_twice_as_deep():
    run = tiny("causal")
    deep = weights(scale(run, "depth", 2 * run.model.num_layers))
    for part, count in weights(run).items():
        assert deep[part] == (2 if "layers/" in part else 1) * count


def test_twice_as_wide_has_twice_the_heads():
    run = tiny("causal")
    wide = scale(run, "width", 2 * run.model.hidden_dim)
    assert wide.model.attention.num_heads == 2 * run.model.attention.num_heads
    assert work(wide)["feedforward"] == 4 * work(run)["feedforward"]
    assert work(wide)["attention"] == 2 * work(run)["attention"]


def test_twice_as_long_where_the_model_was_too_short():
    run = tiny("causal")
    long = scale(run, "length", 2 * run.model.max_sequence_length)
    assert long.model.max_sequence_length == 2 * run.model.max_sequence_length
    assert work(long)["attention"] == 4 * work(run)["attention"]


def test_groups_and_both_sides_of_an_encoder_decoder_grow():
    run = tiny("seq2seq", "model.num_decoder_layers=1")
    deep = scale(run, "depth", 2 * run.model.num_layers).model
    assert (deep.num_layers, deep.decoder_layers) == (2 * run.model.num_layers, 2)
    grouped = tiny("causal", "model.attention.num_key_value_heads=2")
    wide = scale(grouped, "width", 32).model.attention
    assert (wide.num_heads, wide.num_key_value_heads) == (2, 1)


def test_heads_that_cannot_be_halved_are_narrower():
    run = tiny("causal", "model.attention.num_heads=1")
    narrow = scale(run, "width", 32).model
    assert (narrow.attention.num_heads, narrow.head_dim(narrow.attention)) == (1, 32)
    explicit = tiny(
        "causal", "model.attention={num_heads: 1, head_dim: 20}", "model.dropout=0.0"
    )
    narrow = scale(explicit, "width", 32).model
    assert narrow.head_dim(narrow.attention) == 10


def test_sizes_that_a_run_cannot_have_say_why():
    run = tiny("causal", "model.feedforward.intermediate_dim=7")
    with pytest.raises(ConfigError, match="intermediate_dim=7 times 1/2"):
        scale(run, "width", 32)
    with pytest.raises(ConfigError, match="an image is always"):
        scale(tiny("vit_base"), "length", 100)
    training = "training={steps: 9, accumulation: 4, batch_size: 8}"
    parts = tiny("causal", training)
    with pytest.raises(ConfigError, match="accumulation=4 does not divide"):
        scale(parts, "batch", 2)


def test_buckets_are_left_for_the_longest():
    layout = "data.layout={kind: bucketed, lengths: [16, 32]}"
    run = tiny("causal", layout, "data.sequence_length=32")
    assert scale(run, "length", 16).data.layout.kind == "packed"


@pytest.mark.parametrize("file", TINY, ids=lambda file: file.stem)
def test_every_axis_has_sizes_and_each_costs_more_than_the_one_before(file):
    run = load_run(file, with_model=True)
    images = isinstance(run.model, EncoderConfig) and run.model.patches
    for axis in AXES:
        own = own_size(run, axis)
        assert scale(run, axis, own) == run
        found = sizes(run, axis)
        assert own in found
        assert found == sorted(set(found))
        costs = []
        for size in found:
            try:
                scaled = scale(run, axis, size)
            except ConfigError:
                continue
            assert own_size(scaled, axis) == size
            others = {x: own_size(scaled, x) for x in AXES if x != axis}
            assert others == {x: own_size(run, x) for x in others}
            cost = count_cost(scaled, vocabulary_size=None if images else 1_000)
            total = cost["flops"]["per_sequence"]["forward"]["total"]
            costs.append(total * cost["batch_size"])
        assert costs == sorted(set(costs))
        assert len(costs) >= (1 if images and axis == "length" else 3)


def test_presets_can_be_half_as_wide():
    for file in preset_files().values():
        run = load_run(file, with_model=True)
        half = scale(run, "width", run.model.hidden_dim // 2)
        assert half.model.hidden_dim == run.model.hidden_dim // 2
