"""LLaMA in Hugging Face's format (Touvron et al., 2023), with grouped queries (GQA)."""

from collections.abc import Container
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    GatedFeedForwardConfig,
    LinearStretchConfig,
    NormalInitializerConfig,
    NoStretchConfig,
    NtkStretchConfig,
    RmsNormConfig,
    RopePositionConfig,
    YarnStretchConfig,
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
    TRANSPOSE,
    VOCABULARY,
)
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, dense
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    sequence_head,
    write_objective,
)

_OUR_BLOCK = "decoder_layer_{i}"
_BLOCK = "layers.{i}"

ROWS = (
    MappingRow("token_embedding/embeddings", "embed_tokens.weight", VOCABULARY),
    MappingRow(
        f"{_OUR_BLOCK}/self_attention_norm/gamma", f"{_BLOCK}.input_layernorm.weight"
    ),
    *dense(f"{_OUR_BLOCK}/self_attention/query", f"{_BLOCK}.self_attn.q_proj"),
    *dense(f"{_OUR_BLOCK}/self_attention/key", f"{_BLOCK}.self_attn.k_proj"),
    *dense(f"{_OUR_BLOCK}/self_attention/value", f"{_BLOCK}.self_attn.v_proj"),
    *dense(f"{_OUR_BLOCK}/self_attention/output", f"{_BLOCK}.self_attn.o_proj"),
    MappingRow(
        f"{_OUR_BLOCK}/feedforward_norm/gamma",
        f"{_BLOCK}.post_attention_layernorm.weight",
    ),
    *dense(f"{_OUR_BLOCK}/feedforward/gate", f"{_BLOCK}.mlp.gate_proj"),
    *dense(f"{_OUR_BLOCK}/feedforward/intermediate", f"{_BLOCK}.mlp.up_proj"),
    *dense(f"{_OUR_BLOCK}/feedforward/output", f"{_BLOCK}.mlp.down_proj"),
    MappingRow("final_norm/gamma", "norm.weight"),
    MappingRow("logits/kernel", "lm_head.weight", SCORES, "head"),
    MappingRow("classifier/kernel", "score.weight", TRANSPOSE, "head"),
    MappingRow("regressor/kernel", "score.weight", TRANSPOSE, "head"),
    *dense("token_classifier", "score", "head"),
)
HEADS: Heads = {
    "LlamaForCausalLM": lambda labels: CausalConfig(),
    "LlamaForSequenceClassification": sequence_head,
    "LlamaForTokenClassification": lambda labels: TokenClassificationConfig(
        labels=labels
    ),
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`, as transformers 4 and 5 write it."""
    heads = settings.integer("num_attention_heads")
    key_value_heads = settings.integer("num_key_value_heads", heads)
    width = settings.integer("hidden_size")
    head_dim = settings.integer("head_dim", width // heads)
    has_bias = settings.flag("attention_bias", False)
    config = DecoderConfig(
        num_layers=settings.integer("num_hidden_layers"),
        hidden_dim=width,
        max_sequence_length=settings.integer("max_position_embeddings", 2048),
        dropout=0.0,
        initializer=NormalInitializerConfig(
            stddev=settings.number("initializer_range", 0.02)
        ),
        position=_read_rotation(settings),
        attention=FullAttentionConfig(
            num_heads=heads,
            num_key_value_heads=None if key_value_heads == heads else key_value_heads,
            head_dim=None if head_dim * heads == width else head_dim,
            projection_bias=has_bias,
            output_bias=has_bias,
            dropout=settings.number("attention_dropout", 0.0),
        ),
        norm=RmsNormConfig(epsilon=settings.number("rms_norm_eps", 1e-6)),
        feedforward=GatedFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_size"),
            activation=settings.choice("hidden_act", ACTIVATIONS, "silu"),
            use_bias=settings.flag("mlp_bias", False),
        ),
        tie_embeddings=settings.flag("tie_word_embeddings", False),
    )
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocab_size"),
        objective=read_objective(settings, HEADS) or CausalConfig(),
    )


def _read_rotation(settings: HFConfig) -> RopePositionConfig:
    """Reads RoPE settings: `rope_parameters`, or `rope_theta` and `rope_scaling`."""
    settings.only("partial_rotary_factor", 1.0)
    key = "rope_parameters" if "rope_parameters" in settings else "rope_scaling"
    scaling = settings.section(key)
    base = scaling.number("rope_theta", settings.number("rope_theta", 10_000.0))
    scaling.only("partial_rotary_factor", 1.0)
    word = "rope_type" if "rope_type" in scaling else "type"
    kinds = {name: name for name in ("default", "linear", "dynamic", "yarn")}
    match scaling.choice(word, kinds, "default"):
        case "linear":
            return RopePositionConfig(
                base=base, stretch=LinearStretchConfig(factor=scaling.number("factor"))
            )
        case "yarn":
            return RopePositionConfig(base=base, stretch=_read_yarn(scaling, settings))
        case _:
            # `dynamic` has no effect up to max_position_embeddings, our maximum length.
            return RopePositionConfig(base=base, stretch=NoStretchConfig())


def _read_yarn(scaling: HFConfig, settings: HFConfig) -> YarnStretchConfig:
    for key in ("attention_factor", "mscale", "mscale_all_dim"):
        if key in scaling:
            raise scaling.refusal(key, "no such key: our YaRN has the paper's own")
    scaling.only("truncate", True)
    return YarnStretchConfig(
        factor=scaling.number("factor"),
        original_length=scaling.integer(
            "original_max_position_embeddings",
            settings.integer("max_position_embeddings"),
        ),
        beta_fast=scaling.number("beta_fast", 32.0),
        beta_slow=scaling.number("beta_slow", 1.0),
    )


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json` as transformers 4 does; transformers 5 reads it too."""
    config = description.config
    attention, position = config.attention, config.position
    feedforward = require_feedforward(config)
    return {
        "model_type": "llama",
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.hidden_dim,
        "max_position_embeddings": config.max_sequence_length,
        "initializer_range": getattr(config.initializer, "stddev", 0.02),
        "rope_theta": getattr(position, "base", 10_000.0),
        "rope_scaling": _write_stretch(getattr(position, "stretch", NoStretchConfig())),
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.key_value_heads,
        "head_dim": config.head_dim(attention),
        "attention_bias": attention.projection_bias,
        "attention_dropout": attention.dropout,
        "rms_norm_eps": config.norm.epsilon,
        "intermediate_size": feedforward.intermediate_dim,
        "hidden_act": THEIR_ACTIVATIONS[feedforward.activation],
        "mlp_bias": feedforward.use_bias,
        "tie_word_embeddings": getattr(config, "tie_embeddings", True),
        "vocab_size": description.vocabulary_size,
        # Their defaults would be the ids of the published models.
        "bos_token_id": None,
        "eos_token_id": None,
        **write_objective(description.objective or CausalConfig(), HEADS),
    }


def _write_stretch(stretch: Any) -> dict[str, Any] | None:
    match stretch:
        case LinearStretchConfig(factor=factor):
            return {"type": "linear", "rope_type": "linear", "factor": factor}
        case YarnStretchConfig():
            return {
                "type": "yarn",
                "rope_type": "yarn",
                "factor": stretch.factor,
                "original_max_position_embeddings": stretch.original_length,
                "beta_fast": stretch.beta_fast,
                "beta_slow": stretch.beta_slow,
            }
        case NtkStretchConfig():
            raise ArtifactError(
                "position.stretch.kind=ntk: LLaMA's `dynamic` grows with the text and "
                "is another. Train with linear or yarn to export it"
            )
        case _:
            return None


LLAMA = Family(
    model_type="llama",
    prefix="model.",
    rows=lambda description: ROWS,
    read=read,
    write=write,
    copies={"lm_head.weight": "embed_tokens.weight"},
    ignored=r"rotary_emb\.inv_freq$",
)
