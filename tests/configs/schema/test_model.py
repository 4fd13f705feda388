"""Sockets that do not go together and sizes that cannot be, refused with the reason."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.block import LayerNormConfig, RmsNormConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    PoolerConfig,
    Seq2SeqModelConfig,
)

RUN = "name: x\ndata: {source: {kind: text, path: x}}\n"


def model_of(*lines: str):
    """The model that lines describe, the first of which stands on line 4."""
    text = RUN + "model:\n" + "".join(f"  {line}\n" for line in lines)
    return parse_run(text, "f").model


def error_of(*lines: str) -> str:
    with pytest.raises(ConfigError) as caught:
        model_of(*lines)
    return str(caught.value)


# What is written below `model:`, and how the message begins; then parts of it.
SIZES = {
    "heads that do not divide": (
        ["hidden_dim: 64", "attention:", "  num_heads: 7"],
        "f:4: model: hidden_dim=64 is not a multiple of attention.num_heads=7. Make",
    ),
    "heads that do not divide the default": (
        ["attention: {kind: kernel, num_heads: 7}"],
        "f:4: model: hidden_dim=256 is not a multiple of attention.num_heads=7.",
    ),
    "groups that do not divide": (
        ["attention:", "  num_heads: 4", "  num_key_value_heads: 3"],
        "f:5: model.attention: num_heads=4 is not a multiple of num_key_value_heads=3",
    ),
    "more groups than heads": (
        ["attention:", "  num_key_value_heads: 8"],
        "f:5: model.attention: num_heads=4 is not a multiple of num_key_value_heads=8",
    ),
    "no heads": (
        ["attention:", "  num_heads: 0"],
        "f:5: model.attention.num_heads: 0 is out of range: it must be at least 1.",
    ),
    "odd head under rope": (
        ["hidden_dim: 36", "position: {kind: rope}", "attention: {num_heads: 4}"],
        "f:5: model: position.kind=rope turns pairs of numbers, and a head's width of "
        "9 is odd: change attention.head_dim",
    ),
    "odd head_dim under rope": (
        ["position: {kind: rope}", "attention: {head_dim: 15}"],
        "f:4: model: position.kind=rope turns pairs of numbers, and a head's width of "
        "15 is odd",
    ),
    "no window": (
        ["attention:", "  kind: sliding_window", "  window_size: 0"],
        "f:6: model.attention.window_size: 0 is out of range: it must be at least 2.",
    ),
    "odd window": (
        ["attention:", "  kind: global_window", "  window_size: 5"],
        "f:6: model.attention: window_size=5 is odd; half of it lies on each side.",
    ),
    "more global tokens than there are": (
        [
            "max_sequence_length: 16",
            "attention: {kind: global_window, num_global_tokens: 17}",
        ],
        "f:5: model: attention.num_global_tokens=17 is more than "
        "max_sequence_length=16.",
    ),
    "no global token": (
        ["attention: {kind: global_window, num_global_tokens: 0}"],
        "f:4: model.attention.num_global_tokens: 0 is out of range",
    ),
    "more random blocks than there are": (
        ["max_sequence_length: 192", "attention: {kind: block_sparse}"],
        "f:4: model: attention.num_random_blocks=3 cannot be chosen among 3: "
        "max_sequence_length=192 has no more blocks of attention.block_size=64.",
    ),
    "rank above the length": (
        ["max_sequence_length: 64", "attention: {kind: low_rank, rank: 65}"],
        "f:5: model: attention.rank=65 is more than max_sequence_length=64: nothing",
    ),
    "dropout where nothing can be dropped": (
        ["attention: {kind: kernel, dropout: 0.1}"],
        "f:4: model.attention.dropout: 0.1 is out of range: it must be from 0.0 to 0.0",
    ),
    "buckets in quarters": (
        ["position:", "  kind: relative_bias", "  num_buckets: 6"],
        "f:6: model.position: num_buckets=6 is not a multiple of 4",
    ),
    "no room for far distances": (
        ["position:", "  kind: relative_bias", "  max_distance: 16"],
        "f:6: model.position: max_distance=16 leaves no room for ranges: more than "
        "num_buckets / 2 = 16 is needed.",
    ),
    "yarn's borders": (
        ["position:", "  kind: rope", "  stretch:", "    kind: yarn", "    factor: 2",
         "    original_length: 8", "    beta_slow: 32"],
        "f:10: model.position.stretch: beta_slow=32.0 must be less than "
        "beta_fast=32.0.",
    ),
    "stretch that shrinks": (
        ["position: {kind: rope, stretch: {kind: linear, factor: 0.5}}"],
        "f:4: model.position.stretch.factor: 0.5 is out of range: it must be at least",
    ),
    "odd number of leaning heads": (
        ["hidden_dim: 30", "position: {kind: directed_alibi}",
         "attention: {num_heads: 3}"],
        "f:6: model: attention.num_heads=3 is odd; position.kind=directed_alibi needs",
    ),
    "image in no whole squares": (
        ["patches:", "  image_size: 30", "  patch_size: 16"],
        "f:5: model.patches: image_size=30 is not a multiple of patch_size=16.",
    ),
    "more squares than places": (
        ["max_sequence_length: 196", "patches: {image_size: 224}"],
        "f:4: model: max_sequence_length=196 is less than an image's 197 squares with",
    ),
    "images of two segments": (
        ["num_segments: 2", "patches: {image_size: 32}"],
        "f:4: model: num_segments=2: images have no segments.",
    ),
    "images of rounded vocabulary": (
        ["vocabulary_multiple: 64", "patches: {image_size: 32}"],
        "f:4: model: vocabulary_multiple=64 is of the table of tokens, and with",
    ),
    "images of scaled tokens": (
        ["embedding_scale: true", "patches: {image_size: 32}"],
        "f:4: model: embedding_scale=True is of tokens' vectors, and with patches",
    ),
    "activation of nothing": (
        ["pooler:", "  kind: mean", "  activation: relu"],
        "f:6: model.pooler: activation=relu is of the projection, and projection=False",
    ),
}  # fmt: skip

PAIRS = {
    "global tokens without a window": (
        ["attention:", "  kind: full", "  num_global_tokens: 1"],
        "f:6: model.attention.num_global_tokens: is a key of kind 'global_window', but "
        "the kind here is 'full' (f:5). Write `kind: global_window`, or remo",
    ),
    "global tokens on a plain window": (
        ["attention: {kind: sliding_window, num_global_tokens: 1}"],
        "f:4: model.attention.num_global_tokens: is a key of kind 'global_window'",
    ),
    **{
        f"{position} on {attention}": (
            [f"position: {{kind: {position}}}", f"attention: {{kind: {attention}}}"],
            f"f:4: model: position.kind={position} is added to the scores of pairs of "
            f"tokens, and attention.kind={attention} makes none.",
        )
        for position in ("relative_bias", "alibi", "directed_alibi")
        for attention in ("low_rank", "kernel")
    },
    "rope on low rank": (
        ["position: {kind: rope}", "attention: {kind: low_rank}"],
        "f:4: model: position.kind=rope turns each key by its own place, and "
        "attention.kind=low_rank sums up keys of many places.",
    ),
    **{
        f"causal {kind}": (
            ["kind: decoder", "attention:", f"  kind: {kind}"],
            f"f:6: model.attention.kind: no such kind: the text '{kind}'. Known here: "
            "full, sliding_window, kernel. Causal self-attention. The encoder's "
            "other kinds of attention do not support causal masking.",
        )
        for kind in ("low_rank", "block_sparse", "global_window")
    },
    **{
        f"{kind} for both sides": (
            ["kind: seq2seq", "attention:", f"  kind: {kind}"],
            f"f:6: model: attention.kind={kind} cannot keep a decoder's tokens from "
            "seeing what comes after them. Give the decoder an attention of kind full,",
        )
        for kind in ("low_rank", "block_sparse", "global_window")
    },
    "low rank for the decoder alone": (
        ["kind: seq2seq", "decoder_attention: {kind: low_rank}"],
        "f:5: model.decoder_attention.kind: no such kind: the text 'low_rank'",
    ),
    "decoder that looks ahead": (
        ["kind: decoder", "position: {kind: directed_alibi}"],
        "f:5: model: position.kind=directed_alibi has heads that look ahead",
    ),
    "seq2seq that looks ahead": (
        ["kind: seq2seq", "position: {kind: directed_alibi}"],
        "f:5: model: position.kind=directed_alibi has heads that look ahead",
    ),
    "position the decoder's attention cannot know": (
        ["kind: seq2seq", "position: {kind: relative_bias}",
         "decoder_attention: {kind: kernel}"],
        "f:5: model: position.kind=relative_bias is added to the scores of pairs of "
        "tokens, and decoder_attention.kind=kernel makes none.",
    ),
    "heads of the decoder": (
        ["kind: seq2seq", "decoder_attention:", "  kind: full", "  num_heads: 3"],
        "f:7: model: hidden_dim=256 is not a multiple of decoder_attention.num_heads=3",
    ),
    "segments of a decoder": (
        ["kind: decoder", "num_segments: 2"],
        "f:5: model.num_segments: is a key of kind 'encoder', but the kind here is "
        "'decoder' (f:4).",
    ),
    "images for a decoder": (
        ["kind: decoder", "patches: {}"],
        "f:5: model.patches: is a key of kind 'encoder'",
    ),
    "tied scores of an encoder": (
        ["tie_embeddings: true"],
        "f:4: model.tie_embeddings: is a key of kind 'decoder', but the kind here is "
        "'encoder' (the default).",
    ),
    "a table wider than the blocks": (
        ["kind: decoder", "hidden_dim: 64", "embedding_dim: 65"],
        "f:6: model: embedding_dim=65 is more than hidden_dim=64: the dense layer "
        "behind the table would throw away what the table holds. Make it smaller",
    ),
    "a narrow table for images": (
        ["max_sequence_length: 197", "embedding_dim: 64", "patches: {}"],
        "f:5: model: embedding_dim=64 is of the table of tokens, and with patches ",
    ),
    "a table of no width": (
        ["embedding_dim: 0"],
        "f:4: model.embedding_dim: 0 is out of range: it must be at least 1.",
    ),
    "pooler of no kind": (
        ["pooler:", "  kind: median"],
        "f:5: model.pooler.kind: expected 'first' or 'mean' or 'max' or 'attention' or "
        "'last' or 'end_token', found the text 'median'.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), [*SIZES.values(), *PAIRS.values()],
                         ids=[*SIZES, *PAIRS])  # fmt: skip
def test_refused_with_its_place_and_the_reason(lines: list[str], message: str) -> None:
    assert error_of(*lines).startswith(message)


@pytest.mark.parametrize(
    "lines",
    [
        ["hidden_dim: 30", "attention: {num_heads: 4, head_dim: 8}"],
        ["attention: {num_heads: 4, num_key_value_heads: 1}"],
        ["position: {kind: rope}", "attention: {kind: kernel}"],
        ["position: {kind: alibi}", "attention: {kind: block_sparse}"],
        ["position: {kind: learned}", "attention: {kind: low_rank, rank: 512}"],
        ["max_sequence_length: 256", "attention: {kind: block_sparse}"],
        ["max_sequence_length: 197", "patches: {}"],
        ["num_segments: 1"],
        ["hidden_dim: 64", "embedding_dim: 64"],
        ["kind: seq2seq", "embedding_dim: 1", "tie_embeddings: false"],
        ["pooler: null", "patches: null"],
        ["kind: decoder", "position: {kind: alibi}"],
        ["kind: decoder", "attention: {kind: sliding_window, window_size: 2}"],
        ["kind: decoder", "position: {kind: none}"],
        [
            "kind: seq2seq",
            "attention: {kind: low_rank}",
            "decoder_attention: {kind: full}",
        ],
    ],
    ids=" ".join,
)
def test_allowed(lines: list[str]) -> None:
    model_of(*lines)


def test_kinds_and_the_defaults_of_each() -> None:
    assert model_of("num_layers: 4") == EncoderConfig()
    decoder = model_of("kind: decoder")
    assert decoder == DecoderConfig()
    assert decoder.norm == LayerNormConfig(placement="pre", epsilon=1e-5)
    seq2seq = model_of("kind: seq2seq", "norm: {kind: rms_norm}")
    assert seq2seq == Seq2SeqModelConfig(norm=RmsNormConfig())
    assert seq2seq.norm.placement == "pre"


def test_pooler_of_every_kind() -> None:
    assert model_of("pooler: {}").pooler == PoolerConfig(kind="first")
    for kind in ("first", "mean", "max", "attention"):
        pooler = model_of("pooler:", f"  kind: {kind}", "  projection: true").pooler
        assert (pooler.kind, pooler.projection) == (kind, True)


def test_what_is_left_out() -> None:
    assert EncoderConfig().has_embeddings_norm
    assert not DecoderConfig().has_embeddings_norm
    assert DecoderConfig(embeddings_norm=True).has_embeddings_norm
    assert Seq2SeqModelConfig(num_layers=3).decoder_layers == 3
    assert Seq2SeqModelConfig(num_layers=3, num_decoder_layers=1).decoder_layers == 1
    wide = FullAttentionConfig(num_heads=24, head_dim=128)
    assert DecoderConfig(hidden_dim=2048, attention=wide).head_dim(wide) == 128
    assert PatchesConfig(image_size=32, patch_size=8).sequence_length == 17


@pytest.mark.parametrize("family", [DecoderConfig, Seq2SeqModelConfig])
def test_causal_low_rank_is_refused_without_the_loader_too(family: type) -> None:
    with pytest.raises(ConfigError, match=r"attention\.kind=low_rank cannot keep a"):
        family(attention=LowRankAttentionConfig())
    family(attention=KernelAttentionConfig())
