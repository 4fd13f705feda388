"""Budgets of FLOPs: the published figures, and the model of a family."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import transbeam
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.cost.compute_budget import (
    BESIROGLU,
    HOFFMANN,
    describe_model,
    nearest_in_family,
    optimal_allocations,
    parse_budget,
)
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.scaled_configs import scale

ROOT = Path(__file__).parents[3]
CAUSAL = str(ROOT / "configs/tiny/causal.yaml")


@pytest.mark.parametrize(
    ("approach", "flops", "weights", "tokens"),
    [
        # Hoffmann et al., table 3 and table A3.
        (1, 1.92e19, 400e6, 8.0e9),
        (1, 1.23e22, 10e9, 205.1e9),
        (1, 5.76e23, 67e9, 1.5e12),
        (1, 1.27e26, 1e12, 21.2e12),
        (2, 1.84e19, 400e6, 7.7e9),
        (2, 1.32e22, 10e9, 219.5e9),
        (3, 2.21e19, 400e6, 9.2e9),
        (3, 2.46e22, 10e9, 410.1e9),
        (3, 1.71e24, 67e9, 4.1e12),
    ],
)
def test_published_rows(approach, flops, weights, tokens):
    found = optimal_allocations(flops)[approach - 1]
    assert f"approach {approach}" in found.source
    # Tokens are printed with two digits, and so are the parameters of approach 3.
    assert found.weights == pytest.approx(weights, rel=0.05)
    assert found.tokens == pytest.approx(tokens, rel=0.05)


def test_the_corrected_fit_agrees_with_twenty_tokens_for_each_weight():
    """At Chinchilla's own budget, as Besiroglu et al. write."""
    corrected = optimal_allocations(5.76e23)[-1]
    assert 18 < corrected.tokens / corrected.weights < 22


@given(st.floats(1e15, 1e27))
def test_an_optimum_is_one(flops):
    """Against the loss itself, on both sides of the optimum."""
    for fit in (HOFFMANN, BESIROGLU):

        def loss(weights, fit=fit):
            tokens = flops / 6 / weights
            return fit.a / weights**fit.alpha + fit.b / tokens**fit.beta

        best = fit.optimal_weights(flops)
        assert loss(best) < min(loss(1.05 * best), loss(best / 1.05))
    for found in optimal_allocations(flops):
        assert 6 * found.weights * found.tokens == pytest.approx(flops)


def test_the_nearest_of_a_family():
    run = load_run(CAUSAL, with_model=True)

    def size(layers: int) -> int:  # 32 of width for each block, in heads of 16
        wide = scale(scale(run, "depth", layers), "width", 32 * layers)
        return count_cost(wide)["parameters"]["total_with_heads"]

    every = {layers: size(layers) for layers in range(1, 40)}
    for target in (1_000, 200_000, 3_000_000, 400_000_000):
        nearest = nearest_in_family(run, target, 1_024).model
        best = min(every, key=lambda n: max(every[n] / target, target / every[n]))
        assert nearest.num_layers == best
        assert nearest.hidden_dim == 32 * best
        assert nearest.attention.num_heads == 2 * best


def test_tokens_cost_the_budget():
    run = load_run(CAUSAL, with_model=True)
    found = describe_model(run, 1e15, 1_024)
    cost = count_cost(run)
    each = cost["flops"]["per_sequence"]
    sequence = each["forward"]["total"] + each["backward"]["total"]
    assert found["tokens"] == pytest.approx(1e15 / sequence * 64)
    assert found["steps"] * run.training.batch_size * 64 == pytest.approx(
        found["tokens"]
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("6e18", ("flops", 6e18)),
        ("1E+21", ("flops", 1e21)),
        ("5000000", ("flops", 5e6)),
        ("12h", ("seconds", 43_200.0)),
        (" 0.5 d ", ("seconds", 43_200.0)),
        ("30min", ("seconds", 1_800.0)),
    ],
)
def test_budgets(text, read):
    assert parse_budget(text) == read


@pytest.mark.parametrize(
    "text", ["", "many", "-1e18", "0", "nan", "inf", "1e999", "1.2.3", "6e18 h", "5"]
)
def test_what_is_no_budget(text):
    with pytest.raises(ConfigError, match="--budget"):
        parse_budget(text)


def test_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert transbeam.main(["cost", CAUSAL, "--budget", "1e15"]) == 0
    said = capsys.readouterr().out
    assert "Besiroglu et al., 2024" in said
    assert "outside of those that were fitted" in said
    assert "How long it takes here is unknown" in said
    assert max(map(len, said.splitlines())) <= 88

    assert transbeam.main(["cost", CAUSAL, "--budget", "2h"]) == 2
    assert "the speed of this machine, which is unknown" in capsys.readouterr().err

    # The log of a training says it: the first line has the compilation.
    folder = tmp_path / "runs/tiny_causal/training"
    folder.mkdir(parents=True)
    lines = [{"tokens_per_second": x} for x in (1, 900, 1_000, 5_000)]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    assert transbeam.main(["cost", CAUSAL, "--budget", "2h", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["budget"]
    assert plan["seconds"] == pytest.approx(7_200)
    assert plan["own"]["tokens"] == pytest.approx(7_200 * 1_000)


def test_images_have_no_tokens(capsys):
    config = str(ROOT / "configs/presets/vit_base.yaml")
    for budget in ("1e18", "3d"):
        assert transbeam.main(["cost", config, "--budget", budget]) == 2
        assert "the model reads images" in capsys.readouterr().err
