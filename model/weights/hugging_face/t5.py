"""T5 in Hugging Face's format (Raffel et al., 2020): v1.0, and v1.1 (gated).

v1.1 has an untied output matrix, and does not scale the decoder's output.
"""

from collections.abc import Container
from typing import Any

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    FeedForward,
    GatedFeedForwardConfig,
    RelativeBiasPositionConfig,
    RmsNormConfig,
)
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.model.weights.checkpoints.hf_config import (
    ACTIVATIONS,
    THEIR_ACTIVATIONS,
    Activation,
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
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow
from transbeam.model.weights.hugging_face.heads import (
    Heads,
    read_objective,
    write_objective,
)

_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def _attention(ours: str, theirs: str, theirs_norm: str) -> list[MappingRow]:
    return [
        MappingRow(f"{ours}_norm/gamma", f"{theirs_norm}.layer_norm.weight"),
        *(
            MappingRow(f"{ours}/{name}/kernel", f"{theirs}.{short}.weight", TRANSPOSE)
            for name, short in _PROJECTIONS.items()
        ),
    ]


def _feedforward(ours: str, theirs: str, *, gated: bool) -> list[MappingRow]:
    inner = (
        {"intermediate": "wi"}
        if not gated
        else {"gate": "wi_0", "intermediate": "wi_1"}
    )
    return [
        MappingRow(f"{ours}_norm/gamma", f"{theirs}.layer_norm.weight"),
        *(
            MappingRow(
                f"{ours}/{name}/kernel",
                f"{theirs}.DenseReluDense.{word}.weight",
                TRANSPOSE,
            )
            for name, word in {**inner, "output": "wo"}.items()
        ),
    ]


def _stack(kind: str, *, gated: bool) -> list[MappingRow]:
    """The rows of the encoder's stack, or of the decoder's stack."""
    block, ours = f"{kind}.block.{{i}}.layer", f"{kind}_layer_{{i}}"
    last = 1 if kind == "encoder" else 2
    table = f"{kind}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return [
        # In the first block, which shares it with the others.
        MappingRow(f"{kind}_relative_bias/embeddings", table),
        *_attention(f"{ours}/self_attention", f"{block}.0.SelfAttention", f"{block}.0"),
        *_attention(
            f"{ours}/cross_attention", f"{block}.1.EncDecAttention", f"{block}.1"
        ),
        *_feedforward(f"{ours}/feedforward", f"{block}.{last}", gated=gated),
        MappingRow(f"{kind}_final_norm/gamma", f"{kind}.final_layer_norm.weight"),
    ]


def rows(description: Description) -> tuple[MappingRow, ...]:
    """The rows of the weight mapping table, with or without gated feed-forwards."""
    gated = isinstance(description.config.feedforward, GatedFeedForwardConfig)
    return (
        MappingRow("token_embedding/embeddings", "shared.weight", VOCABULARY),
        *_stack("encoder", gated=gated),
        *_stack("decoder", gated=gated),
        MappingRow("logits/kernel", "lm_head.weight", SCORES, "head"),
    )


HEADS: Heads = {
    "T5ForConditionalGeneration": lambda labels: SpanCorruptionConfig(),
    "T5WithLMHeadModel": lambda labels: SpanCorruptionConfig(),  # the original name
}


def read(settings: HFConfig, names: Container[str]) -> Description:
    """Reads `config.json`, as transformers 4 and 5 write it."""
    width, heads = settings.integer("d_model"), settings.integer("num_heads")
    num_layers = settings.integer("num_layers")
    num_decoder_layers = settings.integer("num_decoder_layers", num_layers)
    head_dim = settings.integer("d_kv")
    dropout = settings.number("dropout_rate", 0.1)
    tied, scaled = _read_scores(settings, names)
    config = Seq2SeqModelConfig(
        num_layers=num_layers,
        num_decoder_layers=None
        if num_decoder_layers == num_layers
        else num_decoder_layers,
        hidden_dim=width,
        max_sequence_length=settings.integer("n_positions", 512),
        dropout=dropout,
        position=RelativeBiasPositionConfig(
            num_buckets=settings.integer("relative_attention_num_buckets", 32),
            max_distance=settings.integer("relative_attention_max_distance", 128),
        ),
        attention=FullAttentionConfig(
            num_heads=heads,
            head_dim=None if head_dim * heads == width else head_dim,
            projection_bias=False,
            output_bias=False,
            scale_scores=False,
            dropout=dropout,
        ),
        norm=RmsNormConfig(epsilon=settings.number("layer_norm_epsilon", 1e-6)),
        feedforward=_read_feedforward(settings, dropout),
        tie_embeddings=tied,
        scale_logits=scaled,
    )
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocab_size"),
        objective=read_objective(settings, HEADS) or SpanCorruptionConfig(),
    )


def _read_scores(settings: HFConfig, names: Container[str]) -> tuple[bool, bool]:
    """Returns if the output matrix is tied, and if the decoder's output is scaled.

    In transformers 4, one key determines both settings; the configs of transformers 5
    always declare the matrix tied, but it is tied only if the checkpoint has no
    separate output matrix.
    """
    if "scale_decoder_outputs" in settings:
        return "lm_head.weight" not in names, settings.flag(
            "scale_decoder_outputs", True
        )
    tied = settings.flag("tie_word_embeddings", True)
    return tied, tied


def _read_feedforward(settings: HFConfig, dropout: float) -> FeedForward:
    known: dict[str, Activation] = {
        **ACTIVATIONS,
        **{f"gated-{name}": ours for name, ours in ACTIVATIONS.items()},
        "gated-gelu": "gelu_tanh",  # as in T5 1.1's training
    }
    activation = settings.choice("feed_forward_proj", known, "relu")
    gated = settings.values.get("feed_forward_proj", "relu").startswith("gated-")
    kind = GatedFeedForwardConfig if gated else DenseFeedForwardConfig
    return kind(
        intermediate_dim=settings.integer("d_ff"),
        activation=activation,
        use_bias=False,
        dropout=dropout,
    )


def write(description: Description) -> dict[str, Any]:
    """Writes `config.json`."""
    config = description.config
    position, feedforward = config.position, require_feedforward(config)
    gated = isinstance(feedforward, GatedFeedForwardConfig)
    activation = THEIR_ACTIVATIONS[feedforward.activation]
    if gated:
        # `gated-gelu` means the tanh approximation.
        exact = {"gelu": "gated-gelu_python", "gelu_new": "gated-gelu"}
        activation = exact.get(activation, f"gated-{activation}")
    return {
        "model_type": "t5",
        "is_encoder_decoder": True,
        "d_model": config.hidden_dim,
        "num_heads": config.attention.num_heads,
        "d_kv": config.head_dim(config.attention),
        "num_layers": config.num_layers,
        "num_decoder_layers": getattr(config, "decoder_layers", config.num_layers),
        "n_positions": config.max_sequence_length,
        "dropout_rate": config.dropout,
        "relative_attention_num_buckets": getattr(position, "num_buckets", 32),
        "relative_attention_max_distance": getattr(position, "max_distance", 128),
        "layer_norm_epsilon": config.norm.epsilon,
        "d_ff": feedforward.intermediate_dim,
        "feed_forward_proj": activation,
        "tie_word_embeddings": getattr(config, "tie_embeddings", True),
        "vocab_size": description.vocabulary_size,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        **write_objective(description.objective or SpanCorruptionConfig(), HEADS),
    }


T5 = Family(
    model_type="t5",
    rows=rows,
    read=read,
    write=write,
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    # A table in the original T5's files that nothing uses.
    ignored=r"EncDecAttention\.relative_attention_bias",
)
