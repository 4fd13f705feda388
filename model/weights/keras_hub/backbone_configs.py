"""Reads a KerasHub backbone's model config, from its class and its arguments."""

from collections.abc import Callable, Mapping
from functools import partial

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    LinearStretchConfig,
    NoStretchConfig,
    RelativeBiasPositionConfig,
    RmsNormConfig,
    RopePositionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    PoolerConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    SpanCorruptionConfig,
)
from transbeam.model.weights.checkpoints.hf_config import Activation, HFConfig
from transbeam.model.weights.checkpoints.model_family import Description
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow
from transbeam.model.weights.keras_hub import weight_tables

Described = tuple[Description, tuple[MappingRow, ...]]


def _encoder(
    settings: HFConfig,
    rows: tuple[MappingRow, ...],
    *,
    activation: Activation = "gelu",
    epsilon: float = 1e-12,
    has_pooler: bool = False,
) -> Described:
    """Reads the config of BERT-like encoders.

    Activation and epsilon are arguments because KerasHub's code sets them, not its
    configs.
    """
    dropout = settings.number("dropout")
    config = EncoderConfig(
        num_layers=settings.integer("num_layers"),
        hidden_dim=settings.integer("hidden_dim"),
        max_sequence_length=settings.integer("max_sequence_length"),
        num_segments=settings.integer("num_segments", 0, minimum=0),
        dropout=dropout,
        attention=FullAttentionConfig(
            num_heads=settings.integer("num_heads"), dropout=dropout
        ),
        norm=LayerNormConfig(epsilon=epsilon),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_dim"),
            activation=activation,
        ),
        pooler=PoolerConfig(projection=True) if has_pooler else None,
    )
    return Description(
        config=config, vocabulary_size=settings.integer("vocabulary_size")
    ), rows


def _gpt2(settings: HFConfig) -> Described:
    dropout = settings.number("dropout")
    config = DecoderConfig(
        num_layers=settings.integer("num_layers"),
        hidden_dim=settings.integer("hidden_dim"),
        max_sequence_length=settings.integer("max_sequence_length"),
        dropout=dropout,
        position=LearnedPositionConfig(),
        attention=FullAttentionConfig(
            num_heads=settings.integer("num_heads"), dropout=dropout
        ),
        norm=LayerNormConfig(placement="pre", epsilon=1e-5),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_dim"),
            activation="gelu_tanh",
        ),
    )
    return _language_model(settings, config), weight_tables.GPT2


def _llama(settings: HFConfig) -> Described:
    if "rope_frequency_adjustment_factor" in settings:
        raise settings.refusal(
            "rope_frequency_adjustment_factor",
            "none: we do not have the stretching of LLaMA 3.1",
        )
    heads = settings.integer("num_query_heads")
    key_value_heads = settings.integer("num_key_value_heads")
    factor = settings.number("rope_position_scaling_factor", 1.0)
    dropout = settings.number("dropout")
    config = DecoderConfig(
        num_layers=settings.integer("num_layers"),
        hidden_dim=settings.integer("hidden_dim"),
        # KerasHub has no maximum length.
        max_sequence_length=4096,
        dropout=dropout,
        position=RopePositionConfig(
            base=settings.number("rope_max_wavelength"),
            stretch=NoStretchConfig()
            if factor == 1.0
            else LinearStretchConfig(factor=factor),
        ),
        attention=FullAttentionConfig(
            num_heads=heads,
            num_key_value_heads=None if key_value_heads == heads else key_value_heads,
            projection_bias=False,
            output_bias=False,
            dropout=dropout,
        ),
        norm=RmsNormConfig(epsilon=settings.number("layer_norm_epsilon")),
        feedforward=GatedFeedForwardConfig(
            intermediate_dim=settings.integer("intermediate_dim")
        ),
        tie_embeddings=settings.flag("tied", True),
    )
    return _language_model(settings, config), weight_tables.LLAMA


def _t5(settings: HFConfig) -> Described:
    width, heads = settings.integer("hidden_dim"), settings.integer("num_heads")
    head_dim = settings.integer("key_value_dim", width // heads)
    dropout = settings.number("dropout")
    gated = settings.flag("use_gated_activation", True)
    tied = settings.flag("tied", True)
    kind = GatedFeedForwardConfig if gated else DenseFeedForwardConfig
    config = Seq2SeqModelConfig(
        num_layers=settings.integer("num_layers"),
        hidden_dim=width,
        dropout=dropout,
        position=RelativeBiasPositionConfig(),
        attention=FullAttentionConfig(
            num_heads=heads,
            head_dim=None if head_dim * heads == width else head_dim,
            projection_bias=False,
            output_bias=False,
            scale_scores=False,
            dropout=dropout,
        ),
        norm=RmsNormConfig(epsilon=settings.number("layer_norm_epsilon")),
        feedforward=kind(
            intermediate_dim=settings.integer("intermediate_dim"),
            activation=settings.choice("activation", _T5_ACTIVATIONS),
            use_bias=False,
            dropout=dropout,
        ),
        tie_embeddings=tied,
        scale_logits=tied,
    )
    description = Description(
        config=config,
        vocabulary_size=settings.integer("vocabulary_size"),
        objective=SpanCorruptionConfig(),
    )
    return description, weight_tables.t5(gated=gated)


_T5_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "keras_hub>gelu_approximate": "gelu_tanh",
}


def _vit(settings: HFConfig) -> Described:
    height, width, channels = settings.values["image_shape"]
    squares = settings.values["patch_size"]
    if height != width or squares[0] != squares[1]:
        raise settings.refusal("image_shape", "a square, cut into squares")
    for key in ("use_class_token", "use_mlp_bias", "use_patch_bias", "use_mha_bias"):
        settings.only(key, True)
    patches = PatchesConfig(
        image_size=height, patch_size=squares[0], num_channels=channels
    )
    dropout = settings.number("dropout_rate")
    config = EncoderConfig(
        num_layers=settings.integer("num_layers"),
        hidden_dim=settings.integer("hidden_dim"),
        max_sequence_length=patches.sequence_length,
        dropout=dropout,
        attention=FullAttentionConfig(
            num_heads=settings.integer("num_heads"),
            dropout=settings.number("attention_dropout"),
        ),
        norm=LayerNormConfig(
            placement="pre", epsilon=settings.number("layer_norm_epsilon")
        ),
        feedforward=DenseFeedForwardConfig(
            intermediate_dim=settings.integer("mlp_dim"), dropout=dropout
        ),
        patches=patches,
    )
    return Description(config=config, vocabulary_size=0), weight_tables.VIT


def _language_model(settings: HFConfig, config: DecoderConfig) -> Description:
    return Description(
        config=config,
        vocabulary_size=settings.integer("vocabulary_size"),
        objective=CausalConfig(),
    )


# Family, and the function that reads description and table, by class name.
BACKBONES: Mapping[str, tuple[str, Callable[[HFConfig], Described]]] = {
    "BertBackbone": (
        "bert",
        partial(
            _encoder,
            rows=weight_tables.BERT,
            activation="gelu_tanh",
            has_pooler=True,
        ),
    ),
    "RobertaBackbone": (
        "roberta",
        partial(_encoder, rows=weight_tables.ROBERTA, epsilon=1e-5),
    ),
    "DistilBertBackbone": (
        "distilbert",
        partial(_encoder, rows=weight_tables.DISTILBERT),
    ),
    "GPT2Backbone": ("gpt2", _gpt2),
    "LlamaBackbone": ("llama", _llama),
    "Llama3Backbone": ("llama", _llama),
    "T5Backbone": ("t5", _t5),
    "ViTBackbone": ("vit", _vit),
}
