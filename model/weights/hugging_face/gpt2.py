"""GPT-2 in Hugging Face's format (Radford et al., 2019)."""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    LayerNormConfig,
    NormalInitializerConfig,
)
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
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
from transbeam.model.weights.checkpoints.tensor_transforms import (
    SCORES,
    SIDE_BY_SIDE,
    TRANSPOSE,
    VOCABULARY,
)
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, dense, norm
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    sequence_head,
    write_objective,
)

_OUR_BLOCK = "decoder_layer_{i}"
_QUERY_KEY_VALUE = [
    f"{_OUR_BLOCK}/self_attention/{n}" for n in ("query", "key", "value")
]


def _dense(ours: str, theirs: str) -> list[MappingRow]:
    """Mapping rows of a dense layer; GPT-2's kernels are (in, out), as in Keras."""
    return [
        MappingRow(f"{ours}/kernel", f"{theirs}.weight"),
        MappingRow(f"{ours}/bias", f"{theirs}.bias"),
    ]


ROWS = (
    MappingRow("token_embedding/embeddings", "wte.weight", VOCABULARY),
    MappingRow("position_embedding/embeddings", "wpe.weight"),
    *norm(f"{_OUR_BLOCK}/self_attention_norm", "h.{i}.ln_1"),
    MappingRow(
        tuple(f"{name}/kernel" for name in _QUERY_KEY_VALUE),
        "h.{i}.attn.c_attn.weight",
        SIDE_BY_SIDE,
    ),
    MappingRow(
        tuple(f"{name}/bias" for name in _QUERY_KEY_VALUE),
        "h.{i}.attn.c_attn.bias",
        SIDE_BY_SIDE,
    ),
    *_dense(f"{_OUR_BLOCK}/self_attention/output", "h.{i}.attn.c_proj"),
    *norm(f"{_OUR_BLOCK}/feedforward_norm", "h.{i}.ln_2"),
    *_dense(f"{_OUR_BLOCK}/feedforward/intermediate", "h.{i}.mlp.c_fc"),
    *_dense(f"{_OUR_BLOCK}/feedforward/output", "h.{i}.mlp.c_proj"),
    *norm("final_norm", "ln_f"),
    MappingRow("logits/kernel", "lm_head.weight", SCORES, "head"),
    MappingRow("classifier/kernel", "score.weight", TRANSPOSE, "head"),
    MappingRow("regressor/kernel", "score.weight", TRANSPOSE, "head"),
    *dense("token_classifier", "classifier", "head"),
)
HEADS: Heads = {
    "GPT2LMHeadModel": lambda labels: CausalConfig(),
    "GPT2Model": lambda labels: CausalConfig(),
    "GPT2ForSequenceClassification": sequence_head,
    "GPT2ForTokenClassification": lambda labels: TokenClassificationConfig(
        labels=labels
    ),
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`."""
    settings.only("scale_attn_weights", True)
    settings.only("scale_attn_by_inverse_layer_idx", False)
    settings.only("add_cross_attention", False)
    width = settings.integer("n_embd")
    dropout = settings.number("resid_pdrop", 0.1)
    config = DecoderConfig(
        num_layers=settings.integer("n_layer"),
        hidden_dim=width,
        max_sequence_length=settings.integer("n_positions"),
        dropout=dropout,
        initializer=NormalInitializerConfig(
            stddev=settings.number("initializer_range", 0.02), scale_residual=True
        ),
        attention=FullAttentionConfig(
            num_heads=settings.integer("n_head"),
            dropout=settings.number("attn_pdrop", 0.1),
        ),
        norm=LayerNormConfig(
            placement="pre", epsilon=settings.number("layer_norm_epsilon", 1e-5)
        ),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("n_inner", 4 * width),
            activation=settings.choice("activation_function", ACTIVATIONS, "gelu_new"),
        ),
        tie_embeddings=settings.flag("tie_word_embeddings", True),
    )
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocab_size"),
        objective=read_objective(settings, HEADS) or CausalConfig(),
    )


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    config = description.config
    feedforward = require_feedforward(config)
    return {
        "model_type": "gpt2",
        "n_layer": config.num_layers,
        "n_embd": config.hidden_dim,
        "n_positions": config.max_sequence_length,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "initializer_range": getattr(config.initializer, "stddev", 0.02),
        "n_head": config.attention.num_heads,
        "attn_pdrop": config.attention.dropout,
        "layer_norm_epsilon": config.norm.epsilon,
        "n_inner": feedforward.intermediate_dim,
        "activation_function": THEIR_ACTIVATIONS[feedforward.activation],
        "tie_word_embeddings": getattr(config, "tie_embeddings", True),
        "vocab_size": description.vocabulary_size,
        # Their defaults would be the ids of the published models.
        "bos_token_id": None,
        "eos_token_id": None,
        **write_objective(description.objective or CausalConfig(), HEADS),
    }


GPT2 = Family(
    model_type="gpt2",
    prefix="transformer.",
    rows=lambda description: ROWS,
    read=read,
    write=write,
    copies={"lm_head.weight": "wte.weight"},
    ignored=r"^h\.\d+\.attn\.(bias|masked_bias)$",
)
