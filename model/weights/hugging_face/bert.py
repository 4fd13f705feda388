"""BERT in Hugging Face's format (Devlin et al., 2019)."""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    NormalInitializerConfig,
)
from transbeam.configs.schema.model import EncoderConfig, PoolerConfig
from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    SentencePairsConfig,
)
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
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    sequence_head,
    write_objective,
)

_OUR_BLOCK = "encoder_layer_{i}"
_BLOCK = "encoder.layer.{i}"

# Rows that RoBERTa shares.
BODY = (
    MappingRow(
        "token_embedding/embeddings", "embeddings.word_embeddings.weight", VOCABULARY
    ),
    MappingRow(
        "position_embedding/embeddings", "embeddings.position_embeddings.weight"
    ),
    MappingRow(
        "segment_embedding/embeddings", "embeddings.token_type_embeddings.weight"
    ),
    *norm("embeddings_norm", "embeddings.LayerNorm"),
    *dense(f"{_OUR_BLOCK}/self_attention/query", f"{_BLOCK}.attention.self.query"),
    *dense(f"{_OUR_BLOCK}/self_attention/key", f"{_BLOCK}.attention.self.key"),
    *dense(f"{_OUR_BLOCK}/self_attention/value", f"{_BLOCK}.attention.self.value"),
    *dense(f"{_OUR_BLOCK}/self_attention/output", f"{_BLOCK}.attention.output.dense"),
    *norm(f"{_OUR_BLOCK}/self_attention_norm", f"{_BLOCK}.attention.output.LayerNorm"),
    *dense(f"{_OUR_BLOCK}/feedforward/intermediate", f"{_BLOCK}.intermediate.dense"),
    *dense(f"{_OUR_BLOCK}/feedforward/output", f"{_BLOCK}.output.dense"),
    *norm(f"{_OUR_BLOCK}/feedforward_norm", f"{_BLOCK}.output.LayerNorm"),
)
OTHER_HEADS = (
    *dense("token_classifier", "classifier", "head"),
    *dense("span_classifier", "qa_outputs", "head"),
)
ROWS = (
    *BODY,
    *dense("pooler", "pooler.dense", "pooler"),
    *dense("head_dense", "cls.predictions.transform.dense", "head"),
    *norm("head_norm", "cls.predictions.transform.LayerNorm", "head"),
    MappingRow("head_bias/bias", "cls.predictions.bias", VOCABULARY, "head"),
    *dense("pair_classifier", "cls.seq_relationship", "head"),
    *dense("classifier", "classifier", "head"),
    *dense("regressor", "classifier", "head"),
    *OTHER_HEADS,
)
HEADS: Heads = {
    "BertModel": lambda labels: None,
    "BertForMaskedLM": lambda labels: MaskedConfig(),
    "BertForPreTraining": lambda labels: SentencePairsConfig(),
    "BertForSequenceClassification": sequence_head,
    "BertForTokenClassification": lambda labels: TokenClassificationConfig(
        labels=labels
    ),
    "BertForQuestionAnswering": lambda labels: SpanQAConfig(),
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`, or the `bert_config.json` of the original BERT."""
    return read_encoder(settings, names, HEADS)


_SUPPORTED_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def read_encoder(
    settings: HFConfig,
    names: Container[str],
    heads: Heads,
    *,
    position_offset: int = 0,
    num_segments: int = 2,
) -> Description:
    """Reads the settings that the configs of BERT and RoBERTa share.

    Args:
        settings: `config.json`.
        names: Names of the checkpoint's tensors, as in the table.
        heads: Maps the family's class names to functions that return a head's
            objective.
        position_offset: Number of rows of the position table before the first position.
        num_segments: Default number of segments.
    """
    for key, value in _SUPPORTED_ONLY.items():
        settings.only(key, value)
    segments = settings.integer("type_vocab_size", num_segments)
    positions = settings.integer("max_position_embeddings", minimum=position_offset + 1)
    pooler = PoolerConfig(projection=True) if "pooler.dense.weight" in names else None
    config = EncoderConfig(
        num_layers=settings.integer("num_hidden_layers"),
        hidden_dim=settings.integer("hidden_size"),
        max_sequence_length=positions - position_offset,
        num_segments=segments,
        dropout=settings.number("hidden_dropout_prob", 0.1),
        initializer=NormalInitializerConfig(
            stddev=settings.number("initializer_range", 0.02)
        ),
        position=LearnedPositionConfig(offset=position_offset),
        attention=FullAttentionConfig(
            num_heads=settings.integer("num_attention_heads"),
            dropout=settings.number("attention_probs_dropout_prob", 0.1),
        ),
        norm=LayerNormConfig(epsilon=settings.number("layer_norm_eps", 1e-12)),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_size"),
            activation=settings.choice("hidden_act", ACTIVATIONS, "gelu"),
        ),
        pooler=pooler,
    )
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocab_size"),
        objective=read_objective(settings, heads),
    )


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    return {
        "model_type": "bert",
        "pad_token_id": 0,
        **write_encoder(description),
        **write_objective(description.objective, HEADS),
    }


def write_encoder(description: Description) -> dict[str, Any]:
    """Writes the settings that `read_encoder` reads."""
    config = description.config
    feedforward = require_feedforward(config)
    offset = getattr(config.position, "offset", 0)
    return {
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.hidden_dim,
        "max_position_embeddings": config.max_sequence_length + offset,
        "type_vocab_size": getattr(config, "num_segments", 0),
        "hidden_dropout_prob": config.dropout,
        "initializer_range": getattr(config.initializer, "stddev", 0.02),
        "num_attention_heads": config.attention.num_heads,
        "attention_probs_dropout_prob": config.attention.dropout,
        "layer_norm_eps": config.norm.epsilon,
        "intermediate_size": feedforward.intermediate_dim,
        "hidden_act": THEIR_ACTIVATIONS[feedforward.activation],
        "vocab_size": description.vocabulary_size,
        "position_embedding_type": "absolute",
    }


BERT = Family(
    model_type="bert",
    prefix="bert.",
    rows=lambda description: ROWS,
    read=read,
    write=write,
    copies={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    ignored=r"^embeddings\.(position_ids|token_type_ids)$",
)
