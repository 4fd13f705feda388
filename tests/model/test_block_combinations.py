"""Every legal combination of sockets keeps the promises of a model.

The whole product takes minutes and is thorough; a few combinations in which each pair
of sockets meets at least once always run.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import VOCABULARY_SIZE, tensorflow_only
from tests.model.covering_arrays import covering
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema import attention, block
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    Seq2SeqModelConfig,
)
from transbeam.model.cost.parameters import count_parameters
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq

HEADS: dict[str, Any] = {"num_heads": 4, "dropout": 0.0}
SOCKETS: dict[str, list[Any]] = {
    "family": [EncoderConfig, DecoderConfig, Seq2SeqModelConfig],
    "position": [
        block.NoPositionConfig(),
        block.LearnedPositionConfig(offset=1),
        block.SinusoidalPositionConfig(),
        block.RelativeBiasPositionConfig(num_buckets=8, max_distance=6),
        block.AlibiPositionConfig(),
        block.DirectedAlibiPositionConfig(),
        block.RopePositionConfig(),
    ],
    "attention": [
        attention.FullAttentionConfig(**HEADS, num_key_value_heads=2, head_dim=6),
        attention.SlidingWindowAttentionConfig(**HEADS, window_size=4),
        attention.GlobalWindowAttentionConfig(
            **HEADS, window_size=4, num_global_tokens=1
        ),
        attention.BlockSparseAttentionConfig(
            **HEADS, block_size=2, num_random_blocks=1
        ),
        attention.LowRankAttentionConfig(**HEADS, rank=3, max_documents=3),
        attention.KernelAttentionConfig(num_heads=4, num_features=8),
    ],
    "norm": [
        kind(placement=placement)
        for kind in (block.LayerNormConfig, block.RmsNormConfig)
        for placement in ("pre", "post")
    ],
    "feedforward": [
        block.DenseFeedForwardConfig(intermediate_dim=12, activation="relu"),
        block.GatedFeedForwardConfig(intermediate_dim=12),
        block.NoFeedForwardConfig(),
    ],
    "residual": [
        block.PlainResidualConfig(),
        block.ScaledResidualConfig(),
        block.ReZeroResidualConfig(),
        block.DropPathResidualConfig(rate=0.5),
    ],
}
LENGTHS = (3, 5, 4)
SOURCE_LENGTHS = (4, 2, 5)


def legal_combinations() -> Iterator[dict[str, Any]]:
    for values in itertools.product(*SOCKETS.values()):
        chosen = dict(zip(SOCKETS, values, strict=True))
        try:
            make_config(chosen)
        except ConfigError:
            continue
        yield chosen


def make_config(chosen: dict[str, Any]) -> Model:
    options = {name: value for name, value in chosen.items() if name != "family"}
    family = chosen["family"]
    if family is Seq2SeqModelConfig and not isinstance(
        options["attention"], attention.CausalAttention
    ):
        options["decoder_attention"] = attention.FullAttentionConfig(**HEADS)
    return family(
        num_layers=1, hidden_dim=16, max_sequence_length=16, dropout=0.0, **options
    )


def each_once(together: int) -> list[dict[str, Any]]:
    """Few combinations in which so many legal values at a time all meet."""
    combinations = list(legal_combinations())
    random.Random(0).shuffle(combinations)
    by_values = {tuple(map(repr, one.values())): one for one in combinations}
    return [by_values[values] for values in covering(list(by_values), together)]


def rows(pieces: list[np.ndarray]) -> np.ndarray:
    longest = max(map(len, pieces))
    return np.array([np.pad(piece, (0, longest - len(piece))) for piece in pieces])


def row(pieces: list[np.ndarray]) -> np.ndarray:
    return np.pad(np.concatenate(pieces), (0, 2))[np.newaxis]


def sequence(lengths: tuple[int, ...], prefix: str, packed: bool) -> dict[str, Any]:
    generator = np.random.default_rng(len(prefix))
    documents = [generator.integers(0, VOCABULARY_SIZE, length) for length in lengths]
    ones = [np.ones(length) for length in lengths]
    if packed:
        inputs = {
            "token_ids": row(documents),
            "document_ids": row([part * (i + 1) for i, part in enumerate(ones)]),
            "position_ids": row([np.arange(length) for length in lengths]),
        }
    else:
        # One row more, of nothing but padding.
        inputs = {
            "token_ids": rows([*documents, np.zeros(1)]),
            "padding_mask": rows([*ones, np.zeros(1)]),
        }
    return {f"{prefix}{name}": array.astype("int32") for name, array in inputs.items()}


def answer(model: keras.Model, *, packed: bool) -> np.ndarray:
    if "token_ids" in model.input:
        inputs = sequence(LENGTHS, "", packed)
    else:
        inputs = sequence(SOURCE_LENGTHS, "encoder_", packed)
        inputs |= sequence(LENGTHS, "decoder_", packed)
    outputs = compiled_on_jax(model)(inputs)
    name = "logits" if "logits" in outputs else "sequence_output"
    return keras.ops.convert_to_numpy(outputs[name])


def check(chosen: dict[str, Any]) -> None:
    """The promises: counted, finite, and packed is alone."""
    config = make_config(chosen)
    build = {
        EncoderConfig: build_encoder,
        DecoderConfig: build_decoder,
        Seq2SeqModelConfig: build_seq2seq,
    }[chosen["family"]]
    alone = build(config, VOCABULARY_SIZE)
    together = build(config, VOCABULARY_SIZE, packed=True)
    generator = np.random.default_rng(7)
    for weight in alone.weights:
        weight.assign(generator.normal(1.0, 0.3, weight.shape))
    together.set_weights(alone.get_weights())

    assert (
        sum(count_parameters(config, VOCABULARY_SIZE).values()) == alone.count_params()
    )
    apart = answer(alone, packed=False)
    assert np.isfinite(apart).all()
    packed = answer(together, packed=True)
    assert np.isfinite(packed).all()
    ends = np.cumsum(LENGTHS)
    for index, (end, length) in enumerate(zip(ends, LENGTHS, strict=True)):
        there, here = packed[0, end - length : end], apart[index, :length]
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)


def title(chosen: dict[str, Any]) -> str:
    names = [chosen["family"].__name__.removesuffix("Config").lower()]
    names += [value.kind for name, value in chosen.items() if name != "family"]
    return "-".join([*names, chosen["norm"].placement])


# JAX compiles each for seconds: there, each value meets the others at least once.
@pytest.mark.parametrize("chosen", each_once(1 if ON_JAX else 2), ids=title)
def test_where_each_pair_meets(chosen):
    check(chosen)


@pytest.mark.parametrize("family", SOCKETS["family"])
def test_with_a_narrow_table(family):
    learned = [
        chosen
        for chosen in legal_combinations()
        if chosen["family"] is family and chosen["position"].kind == "learned"
    ]
    check({**learned[0], "embedding_dim": 6})


@tensorflow_only  # JAX would compile for hours
@pytest.mark.thorough(instead="test_where_each_pair_meets")
@pytest.mark.parametrize("attention", SOCKETS["attention"], ids=lambda kind: kind.kind)
def test_the_whole_product(attention):
    for chosen in legal_combinations():
        if chosen["attention"] == attention:
            check(chosen)
            keras.backend.clear_session()
