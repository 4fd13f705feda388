"""Names of weights in KerasHub, with one mapping table per backbone class.

KerasHub's attention weights have a separate axis for attention heads. A backbone has no
task heads.
"""

from transbeam.model.weights.checkpoints.tensor_transforms import (
    SAME,
    VOCABULARY,
    PatchSquares,
    Same,
    SplitHeads,
    Transform,
    VocabularyRows,
)
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, Part

_HEADS_OUT = SplitHeads(axis=1)
_HEADS_IN = SplitHeads(axis=0)
_SCORES = VocabularyRows(axis=1)


def _dense(
    ours: str,
    theirs: str,
    kernel: Transform = SAME,
    bias: Transform = SAME,
    part: Part = "body",
) -> list[MappingRow]:
    return [
        MappingRow(f"{ours}/kernel", f"{theirs}/kernel", kernel, part),
        MappingRow(f"{ours}/bias", f"{theirs}/bias", bias, part),
    ]


def _norm(ours: str, theirs: str) -> list[MappingRow]:
    return [MappingRow(f"{ours}/{end}", f"{theirs}/{end}") for end in ("gamma", "beta")]


def _attention(ours: str, theirs: str) -> list[MappingRow]:
    return [
        *(
            row
            for name in ("query", "key", "value")
            for row in _dense(
                f"{ours}/{name}", f"{theirs}/{name}", _HEADS_OUT, _HEADS_IN
            )
        ),
        *_dense(f"{ours}/output", f"{theirs}/attention_output", _HEADS_IN),
    ]


def _block(ours: str, attention: str) -> list[MappingRow]:
    """Rows of a block of BERT or GPT-2, which differ in the name of the attention."""
    block = "transformer_layer_{i}"
    return [
        *_attention(f"{ours}/self_attention", f"{block}/{attention}"),
        *_norm(f"{ours}/self_attention_norm", f"{block}/self_attention_layer_norm"),
        *_dense(
            f"{ours}/feedforward/intermediate",
            f"{block}/feedforward_intermediate_dense",
        ),
        *_dense(f"{ours}/feedforward/output", f"{block}/feedforward_output_dense"),
        *_norm(f"{ours}/feedforward_norm", f"{block}/feedforward_layer_norm"),
    ]


def _embeddings(folder: str) -> list[MappingRow]:
    table = "embeddings"
    return [
        MappingRow(
            f"token_embedding/{table}", f"{folder}token_embedding/{table}", VOCABULARY
        ),
        MappingRow(
            f"position_embedding/{table}", f"{folder}position_embedding/{table}"
        ),
    ]


_ENCODER = (
    *_norm("embeddings_norm", "embeddings_layer_norm"),
    *_block("encoder_layer_{i}", "self_attention_layer"),
)
BERT = (
    *_embeddings(""),
    MappingRow("segment_embedding/embeddings", "segment_embedding/embeddings"),
    *_ENCODER,
    *_dense("pooler", "pooled_dense", part="pooler"),
)
ROBERTA = (*_embeddings("embeddings/"), *_ENCODER)
DISTILBERT = (*_embeddings("token_and_position_embedding/"), *_ENCODER)
GPT2 = (
    *_embeddings(""),
    *_block("decoder_layer_{i}", "self_attention"),
    *_norm("final_norm", "layer_norm"),
)

_OURS, _THEIRS = "decoder_layer_{i}", "transformer_layer_{i}"
LLAMA = (
    MappingRow("token_embedding/embeddings", "token_embedding/embeddings", VOCABULARY),
    *_attention(f"{_OURS}/self_attention", f"{_THEIRS}/self_attention"),
    MappingRow(
        f"{_OURS}/self_attention_norm/gamma",
        f"{_THEIRS}/self_attention_layernorm/scale",
    ),
    *_dense(f"{_OURS}/feedforward/gate", f"{_THEIRS}/feedforward_gate_dense"),
    *_dense(
        f"{_OURS}/feedforward/intermediate", f"{_THEIRS}/feedforward_intermediate_dense"
    ),
    *_dense(f"{_OURS}/feedforward/output", f"{_THEIRS}/feedforward_output_dense"),
    MappingRow(
        f"{_OURS}/feedforward_norm/gamma", f"{_THEIRS}/feedforward_layernorm/scale"
    ),
    MappingRow("final_norm/gamma", "sequence_output_layernorm/scale"),
    MappingRow("logits/kernel", "token_embedding/reverse_embeddings", _SCORES),
)


def _t5_stack(kind: str, *, gated: bool) -> list[MappingRow]:
    ours, theirs = f"{kind}_layer_{{i}}", f"transformer_{kind}_layer_{{i}}"
    attentions = ["self_attention", "cross_attention"]
    # KerasHub applies the activation to the projection that it calls `input`.
    inner = {"intermediate": "input"}
    if gated:
        inner = {"gate": "input", "intermediate": "gate"}
    last = 1 if kind == "encoder" else 2
    return [
        MappingRow(f"{kind}_relative_bias/embeddings", f"{kind}/relative_bias"),
        *(
            MappingRow(
                f"{ours}/{attention}/{name}/kernel",
                f"{theirs}/{attention}/{name}_projector/kernel",
            )
            for attention in attentions
            for name in ("query", "key", "value", "output")
        ),
        *(
            MappingRow(f"{ours}/{part}_norm/gamma", f"{theirs}/norm_{number}/weight")
            for part, number in (
                ("self_attention", 0),
                ("cross_attention", 1),
                ("feedforward", last),
            )
        ),
        *(
            MappingRow(
                f"{ours}/feedforward/{name}/kernel", f"{theirs}/{word}_projector/kernel"
            )
            for name, word in {**inner, "output": "output"}.items()
        ),
        MappingRow(f"{kind}_final_norm/gamma", f"{kind}_output_layer_norm/weight"),
    ]


def t5(*, gated: bool) -> tuple[MappingRow, ...]:
    """Rows of the table for T5, with or without gated feed-forwards."""
    return (
        MappingRow(
            "token_embedding/embeddings", "token_embedding/embeddings", VOCABULARY
        ),
        *_t5_stack("encoder", gated=gated),
        *_t5_stack("decoder", gated=gated),
        MappingRow("logits/kernel", "token_embedding/reverse_embeddings", _SCORES),
    )


_PATCHES, _VIT = "vit_patching_and_embedding", "vit_encoder/transformer_block_{i}"
_BLOCK = "encoder_layer_{i}"
VIT = (
    MappingRow("class_token/embeddings", f"{_PATCHES}/class_token", Same(leading=1)),
    MappingRow(
        "position_embedding/embeddings", f"{_PATCHES}/position_embedding/embeddings"
    ),
    *_dense("patch_embedding", f"{_PATCHES}/patch_embedding", PatchSquares()),
    *_norm(f"{_BLOCK}/self_attention_norm", f"{_VIT}/ln_1"),
    *_attention(f"{_BLOCK}/self_attention", f"{_VIT}/mha"),
    *_norm(f"{_BLOCK}/feedforward_norm", f"{_VIT}/ln_2"),
    *_dense(f"{_BLOCK}/feedforward/intermediate", f"{_VIT}/mlp/dense_1"),
    *_dense(f"{_BLOCK}/feedforward/output", f"{_VIT}/mlp/dense_2"),
    *_norm("final_norm", "vit_encoder/ln"),
)
