"""ViT in Hugging Face's format (Dosovitskiy et al., 2021)."""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    LayerNormConfig,
    NormalInitializerConfig,
)
from transbeam.configs.schema.model import EncoderConfig, PatchesConfig, PoolerConfig
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.model.weights.checkpoints.hf_config import (
    ACTIVATIONS,
    THEIR_ACTIVATIONS,
    HFConfig,
)
from transbeam.model.weights.checkpoints.model_family import (
    Description,
    Family,
    require_feedforward,
)
from transbeam.model.weights.checkpoints.tensor_transforms import PatchKernel, Same
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, dense, norm
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    write_objective,
)

_OUR_BLOCK = "encoder_layer_{i}"
_BLOCK = "encoder.layer.{i}"
_SELF = f"{_BLOCK}.attention.attention"
_FIRST_AXIS = Same(leading=1)

ROWS = (
    MappingRow("class_token/embeddings", "embeddings.cls_token", _FIRST_AXIS),
    MappingRow(
        "position_embedding/embeddings", "embeddings.position_embeddings", _FIRST_AXIS
    ),
    MappingRow(
        "patch_embedding/kernel",
        "embeddings.patch_embeddings.projection.weight",
        PatchKernel(),
    ),
    MappingRow("patch_embedding/bias", "embeddings.patch_embeddings.projection.bias"),
    *norm(f"{_OUR_BLOCK}/self_attention_norm", f"{_BLOCK}.layernorm_before"),
    *dense(f"{_OUR_BLOCK}/self_attention/query", f"{_SELF}.query"),
    *dense(f"{_OUR_BLOCK}/self_attention/key", f"{_SELF}.key"),
    *dense(f"{_OUR_BLOCK}/self_attention/value", f"{_SELF}.value"),
    *dense(f"{_OUR_BLOCK}/self_attention/output", f"{_BLOCK}.attention.output.dense"),
    *norm(f"{_OUR_BLOCK}/feedforward_norm", f"{_BLOCK}.layernorm_after"),
    *dense(f"{_OUR_BLOCK}/feedforward/intermediate", f"{_BLOCK}.intermediate.dense"),
    *dense(f"{_OUR_BLOCK}/feedforward/output", f"{_BLOCK}.output.dense"),
    *norm("final_norm", "layernorm"),
    *dense("pooler", "pooler.dense", "pooler"),
    *dense("classifier", "classifier", "head"),
)


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`."""
    settings.only("pooler_act", "tanh")
    width = settings.integer("hidden_size")
    settings.only("pooler_output_size", width)
    patches = PatchesConfig(
        image_size=settings.integer("image_size", 224),
        patch_size=settings.integer("patch_size", 16),
        num_channels=settings.integer("num_channels", 3),
    )
    config = EncoderConfig(
        num_layers=settings.integer("num_hidden_layers"),
        hidden_dim=width,
        max_sequence_length=patches.sequence_length,
        dropout=settings.number("hidden_dropout_prob", 0.0),
        initializer=NormalInitializerConfig(
            stddev=settings.number("initializer_range", 0.02)
        ),
        attention=FullAttentionConfig(
            num_heads=settings.integer("num_attention_heads"),
            projection_bias=settings.flag("qkv_bias", True),
            dropout=settings.number("attention_probs_dropout_prob", 0.0),
        ),
        norm=LayerNormConfig(
            placement="pre", epsilon=settings.number("layer_norm_eps", 1e-12)
        ),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_size"),
            activation=settings.choice("hidden_act", ACTIVATIONS, "gelu"),
        ),
        pooler=PoolerConfig(projection=True)
        if "pooler.dense.weight" in names
        else None,
        patches=patches,
    )
    return Description(
        config=config,
        vocabulary_size=0,
        objective=read_objective(settings, _heads(patches)),
    )


def _heads(patches: PatchesConfig) -> Heads:
    return {
        "ViTModel": lambda labels: None,
        "ViTForImageClassification": lambda labels: ImageClassificationConfig(
            labels=labels,
            image_size=patches.image_size,
            channels=patches.num_channels,
        ),
    }


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    config = description.config
    feedforward = require_feedforward(config)
    patches = getattr(config, "patches", None) or PatchesConfig()
    return {
        "model_type": "vit",
        "image_size": patches.image_size,
        "patch_size": patches.patch_size,
        "num_channels": patches.num_channels,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.hidden_dim,
        "hidden_dropout_prob": config.dropout,
        "initializer_range": getattr(config.initializer, "stddev", 0.02),
        "num_attention_heads": config.attention.num_heads,
        "qkv_bias": config.attention.projection_bias,
        "attention_probs_dropout_prob": config.attention.dropout,
        "layer_norm_eps": config.norm.epsilon,
        "intermediate_size": feedforward.intermediate_dim,
        "hidden_act": THEIR_ACTIVATIONS[feedforward.activation],
        **write_objective(description.objective, _heads(patches)),
    }


VIT = Family(
    model_type="vit",
    prefix="vit.",
    rows=lambda description: ROWS,
    read=read,
    write=write,
    # The mask token of masked pretraining, which is not used here.
    ignored=r"^embeddings\.mask_token$",
)
