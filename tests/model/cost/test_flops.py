"""Work counted by hand, its properties, and what XLA counts on the built graph."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.cost.graphs import BATCH, GRAPHS, VOCABULARY_SIZE
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    NoFeedForwardConfig,
    NoPositionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PoolerConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    TokenClassificationConfig,
)
from transbeam.model.cost.flop_count import elementwise, products
from transbeam.model.cost.flops import count_work
from transbeam.model.cost.memory import kept_activations, scored_tokens
from transbeam.model.cost.stacks import Lengths

REPOSITORY = Path(__file__).parents[3]
MULTIPLY_ADD = 2
SMALL = {
    "num_layers": 3,
    "hidden_dim": 8,
    "attention": FullAttentionConfig(num_heads=4, num_key_value_heads=2, head_dim=5),
    "feedforward": DenseFeedForwardConfig(intermediate_dim=12),
}


def test_products_of_a_decoder_by_hand():
    work = count_work(DecoderConfig(**SMALL), CausalConfig(), 100, Lengths(tokens=10))
    query, key = 4 * 5, 2 * 5
    assert work.forward["projections"] == 3 * MULTIPLY_ADD * 10 * 8 * (
        2 * query + 2 * key
    )
    assert work.forward["attention"] == 3 * MULTIPLY_ADD * 2 * 10 * 10 * query
    assert work.forward["feedforward"] == 3 * MULTIPLY_ADD * 10 * 2 * 8 * 12
    assert work.forward["logits"] == MULTIPLY_ADD * 10 * 8 * 100
    assert work.forward["head"] == 0


def test_products_of_a_pair_of_stacks_by_hand():
    config = Seq2SeqModelConfig(
        **{**SMALL, "feedforward": GatedFeedForwardConfig(intermediate_dim=12)},
        num_decoder_layers=1,
    )
    lengths = Lengths(tokens=10, decoder_tokens=6)
    work = count_work(config, SpanCorruptionConfig(), 100, lengths)
    query, key = 20, 10
    own = 3 * 10 * 8 * 2 * (query + key) + 6 * 8 * 2 * (query + key)
    cross = 8 * 2 * (6 * query + 10 * key)
    assert work.forward["projections"] == MULTIPLY_ADD * (own + cross)
    pairs = 3 * 10 * 10 + 6 * 6 + 6 * 10
    assert work.forward["attention"] == MULTIPLY_ADD * 2 * pairs * query
    assert work.forward["feedforward"] == MULTIPLY_ADD * (3 * 10 + 6) * 3 * 8 * 12
    assert work.forward["logits"] == MULTIPLY_ADD * 6 * 8 * 100


def test_attention_only_blocks_multiply_the_same_but_for_the_feedforward():
    lengths = Lengths(tokens=10)
    whole = count_work(DecoderConfig(**SMALL), CausalConfig(), 100, lengths)
    config = DecoderConfig(**{**SMALL, "feedforward": NoFeedForwardConfig()})
    work = count_work(config, CausalConfig(), 100, lengths)
    assert work.forward["feedforward"] == 0
    for part in ("projections", "attention", "logits", "head"):
        assert work.forward[part] == whole.forward[part]
    # One norm, one residual connection, biases and activations go, in three blocks.
    gone = elementwise(10 * 8, (7, 13)) + elementwise(10 * 8, (1, 1))
    gone += elementwise(10 * 12, (66, 10)) + elementwise(10 * (12 + 8), (1, 1))
    left = whole.forward["elementwise"] - work.forward["elementwise"]
    assert left == 3 * gone.forward["elementwise"]


def test_products_around_a_narrow_table_by_hand():
    narrow = {**SMALL, "embedding_dim": 3}
    tied, untied = (
        count_work(
            DecoderConfig(**narrow, tie_embeddings=tie),
            CausalConfig(),
            100,
            Lengths(tokens=10),
        ).forward
        for tie in (True, False)
    )
    assert tied["head"] == MULTIPLY_ADD * 10 * (3 * 8 + 8 * 3)
    assert tied["logits"] == MULTIPLY_ADD * 10 * 3 * 100
    assert untied["head"] == MULTIPLY_ADD * 10 * 3 * 8
    assert untied["logits"] == MULTIPLY_ADD * 10 * 8 * 100
    config = EncoderConfig(**narrow)
    masked = count_work(config, MaskedConfig(), 100, Lengths(tokens=20)).forward
    assert masked["head"] == MULTIPLY_ADD * (20 * 3 * 8 + 3 * 8 * 3)
    assert masked["logits"] == MULTIPLY_ADD * 3 * 3 * 100


def test_only_what_is_masked_is_scored():
    lengths = Lengths(tokens=20)
    work = count_work(EncoderConfig(**SMALL), MaskedConfig(), 100, lengths)
    assert work.forward["logits"] == MULTIPLY_ADD * 3 * 8 * 100
    assert work.forward["head"] == MULTIPLY_ADD * 3 * 8 * 8


def test_a_class_is_asked_of_the_pooled_vector():
    config = EncoderConfig(**SMALL, pooler=PoolerConfig(projection=True))
    objective = ClassificationConfig(labels=("a", "b", "c"))
    work = count_work(config, objective, 100, Lengths(tokens=20))
    assert work.forward["head"] == MULTIPLY_ADD * (8 * 8 + 8 * 3)
    assert work.forward["logits"] == 0


@pytest.mark.parametrize("model", [EncoderConfig, DecoderConfig])
def test_a_vector_costs_its_projection_alone(model):
    pooler = PoolerConfig(kind="mean", projection=True)
    config, lengths = model(**SMALL, pooler=pooler), Lengths(tokens=20)
    work = count_work(config, ContrastivePairsConfig(), 100, lengths)
    assert work.forward["head"] == MULTIPLY_ADD * 8 * 8
    assert work.forward["logits"] == 0


@pytest.mark.parametrize(("kind", "read"), [("classification", 1), ("tags", 20)])
def test_a_head_on_a_decoder_replaces_the_scores_of_its_vocabulary(kind, read):
    labels = ("a", "b", "c")
    objective = (
        ClassificationConfig(labels=labels)
        if kind == "classification"
        else TokenClassificationConfig(labels=labels)
    )
    config, lengths = DecoderConfig(**SMALL), Lengths(tokens=20)
    work = count_work(config, objective, 100, lengths)
    assert work.forward["head"] == MULTIPLY_ADD * read * 8 * 3
    assert work.forward["logits"] == 0
    assert scored_tokens(config, objective, lengths) == 0
    assert kept_activations(config, objective, lengths)["logits"] == 0


@given(
    sizes=st.lists(st.integers(0, 9), min_size=3, max_size=3),
    gradients=st.integers(0, 2),
)
def test_back_is_a_product_for_each_gradient_and_what_is_said_of_the_rest(
    sizes, gradients
):
    trained, drawn, elements = sizes
    work = products("logits", trained) + products("head", drawn, gradients=gradients)
    work += elementwise(elements, (1, 3))
    assert work.forward.total() == 2 * (trained + drawn) + elements
    back = 2 * 2 * trained + gradients * 2 * drawn + 3 * elements
    assert work.backward.total() == back


@given(layers=st.integers(1, 9), length=st.integers(1, 99))
def test_work_is_a_sum_over_layers(layers, length):
    config = EncoderConfig(**{**SMALL, "position": NoPositionConfig()})

    def work(num_layers):
        some = replace(config, num_layers=num_layers)
        return count_work(some, MaskedConfig(), 100, Lengths(tokens=length))

    assert work(layers + 1) + work(1) == work(layers) + work(2)


@given(length=st.integers(1, 400), times=st.integers(2, 9))
def test_full_attention_grows_with_the_square_and_low_rank_with_the_length(
    length, times
):
    def attention(kind, tokens):
        config = EncoderConfig(
            **{**SMALL, "position": NoPositionConfig(), "attention": kind}
        )
        return count_work(config, MaskedConfig(), 9, Lengths(tokens=tokens)).forward[
            "attention"
        ]

    full, low_rank = FullAttentionConfig(num_heads=4), LowRankAttentionConfig(rank=16)
    assert attention(full, times * length) == times**2 * attention(full, length)
    assert attention(low_rank, times * length) == times * attention(low_rank, length)


# ------------------------------------------------------------ equal to XLA's count


XLA = json.loads(Path(__file__).with_name("xla.json").read_text("utf-8"))


@pytest.mark.parametrize("name", GRAPHS)
def test_xla_counts_the_same_within_a_hundredth(name):
    config, objective, lengths = GRAPHS[name]
    work = count_work(config, objective, VOCABULARY_SIZE, lengths)
    counted = BATCH * work.forward.total()
    assert counted == pytest.approx(XLA[name]["forward"], rel=0.01)
    counted += BATCH * work.backward.total()
    assert counted == pytest.approx(XLA[name]["both"], rel=0.01)


@pytest.mark.thorough(instead="test_xla_counts_the_same_within_a_hundredth")
def test_what_xla_counts_is_what_stands_here():
    """By a process of its own: its Keras runs on JAX."""
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.cost.xla"],
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found.keys() == XLA.keys() == GRAPHS.keys()
    for name, flops in found.items():
        # Another version of XLA may count its own way of writing a function.
        assert flops == pytest.approx(XLA[name], rel=1e-3), name
