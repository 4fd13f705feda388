"""DistilBERT in Hugging Face's format (Sanh et al., 2019): no segments, no pooler."""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    LayerNormConfig,
    NormalInitializerConfig,
)
from transbeam.configs.schema.model import EncoderConfig, PoolerConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.supervised import (
    SpanQAConfig,
    TokenClassificationConfig,
)
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
from transbeam.model.weights.checkpoints.tensor_transforms import VOCABULARY
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, dense, norm
from transbeam.model.weights.hugging_face.bert import OTHER_HEADS
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    sequence_head,
    write_objective,
)

_OUR_BLOCK = "encoder_layer_{i}"
_BLOCK = "transformer.layer.{i}"

ROWS = (
    MappingRow(
        "token_embedding/embeddings", "embeddings.word_embeddings.weight", VOCABULARY
    ),
    MappingRow(
        "position_embedding/embeddings", "embeddings.position_embeddings.weight"
    ),
    *norm("embeddings_norm", "embeddings.LayerNorm"),
    *dense(f"{_OUR_BLOCK}/self_attention/query", f"{_BLOCK}.attention.q_lin"),
    *dense(f"{_OUR_BLOCK}/self_attention/key", f"{_BLOCK}.attention.k_lin"),
    *dense(f"{_OUR_BLOCK}/self_attention/value", f"{_BLOCK}.attention.v_lin"),
    *dense(f"{_OUR_BLOCK}/self_attention/output", f"{_BLOCK}.attention.out_lin"),
    *norm(f"{_OUR_BLOCK}/self_attention_norm", f"{_BLOCK}.sa_layer_norm"),
    *dense(f"{_OUR_BLOCK}/feedforward/intermediate", f"{_BLOCK}.ffn.lin1"),
    *dense(f"{_OUR_BLOCK}/feedforward/output", f"{_BLOCK}.ffn.lin2"),
    *norm(f"{_OUR_BLOCK}/feedforward_norm", f"{_BLOCK}.output_layer_norm"),
    *dense("head_dense", "vocab_transform", "head"),
    *norm("head_norm", "vocab_layer_norm", "head"),
    MappingRow("head_bias/bias", "vocab_projector.bias", VOCABULARY, "head"),
    *dense("pooler", "pre_classifier", "head"),
    *dense("classifier", "classifier", "head"),
    *dense("regressor", "classifier", "head"),
    *OTHER_HEADS,
)
HEADS: Heads = {
    "DistilBertModel": lambda labels: None,
    "DistilBertForMaskedLM": lambda labels: MaskedConfig(),
    "DistilBertForSequenceClassification": sequence_head,
    "DistilBertForTokenClassification": lambda labels: TokenClassificationConfig(
        labels=labels
    ),
    "DistilBertForQuestionAnswering": lambda labels: SpanQAConfig(),
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`. Sinusoidal positions are stored like learned ones."""
    settings.only("tie_word_embeddings", True)
    is_classifier = "pre_classifier.weight" in names
    config = EncoderConfig(
        num_layers=settings.integer("n_layers"),
        hidden_dim=settings.integer("dim"),
        max_sequence_length=settings.integer("max_position_embeddings"),
        dropout=settings.number("dropout", 0.1),
        initializer=NormalInitializerConfig(
            stddev=settings.number("initializer_range", 0.02)
        ),
        attention=FullAttentionConfig(
            num_heads=settings.integer("n_heads"),
            dropout=settings.number("attention_dropout", 0.1),
        ),
        # Not a key of their config.
        norm=LayerNormConfig(epsilon=1e-12),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("hidden_dim"),
            activation=settings.choice("activation", ACTIVATIONS, "gelu"),
        ),
        pooler=PoolerConfig(projection=True, activation="relu")
        if is_classifier
        else None,
    )
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocab_size"),
        objective=read_objective(settings, HEADS),
    )


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    config = description.config
    feedforward = require_feedforward(config)
    return {
        "model_type": "distilbert",
        "n_layers": config.num_layers,
        "dim": config.hidden_dim,
        "max_position_embeddings": config.max_sequence_length,
        "sinusoidal_pos_embds": False,
        "dropout": config.dropout,
        "initializer_range": getattr(config.initializer, "stddev", 0.02),
        "n_heads": config.attention.num_heads,
        "attention_dropout": config.attention.dropout,
        "hidden_dim": feedforward.intermediate_dim,
        "activation": THEIR_ACTIVATIONS[feedforward.activation],
        "vocab_size": description.vocabulary_size,
        "pad_token_id": 0,
        **write_objective(description.objective, HEADS),
    }


DISTILBERT = Family(
    model_type="distilbert",
    prefix="distilbert.",
    rows=lambda description: ROWS,
    read=read,
    write=write,
    copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    ignored=r"^embeddings\.position_ids$",
)
