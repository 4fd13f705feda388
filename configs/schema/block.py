"""The exchangeable parts of a block: position, norm, feed-forward, residual.

Each is a tagged union: `kind` selects the part, which has its own keys. Attention is in
`attention.py`.
"""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig:
    """No position information; only a causal mask makes the order matter."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class LearnedPositionConfig:
    """One learned vector per position, added to the token's (BERT, GPT-2)."""

    kind: Literal["learned"] = "learned"
    offset: int = option(
        "Rows of the table before the first position, never used (RoBERTa has 2).",
        default=0,
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class SinusoidalPositionConfig:
    """Fixed sines and cosines of growing wavelength (Vaswani et al., 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    max_wavelength: float = option("Longest wavelength.", default=10_000.0, minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class RelativeBiasPositionConfig:
    """A learned number for each head and distance, added to the scores (T5).

    One table serves all blocks of a stack. Small distances have a bucket each; larger
    ones share buckets of growing width (Raffel et al., 2020, 2.1).
    """

    kind: Literal["relative_bias"] = "relative_bias"
    num_buckets: int = option(
        "Ranges of distance; an encoder has half of them for each direction.",
        default=32,
        minimum=4,
    )
    max_distance: int = option(
        "Distance from which on all share the last range.", default=128, minimum=2
    )

    def __post_init__(self) -> None:
        if self.num_buckets % 4:
            raise ConfigError(
                f"num_buckets={self.num_buckets} is not a multiple of 4: half of the "
                "ranges lie in each direction, and half of those are single distances"
            )
        if self.max_distance <= self.num_buckets // 2:
            raise ConfigError(
                f"max_distance={self.max_distance} leaves no room for ranges: more "
                f"than num_buckets / 2 = {self.num_buckets // 2} is needed"
            )


@dataclass(frozen=True, kw_only=True)
class AlibiPositionConfig:
    """Scores fall with the distance, by a slope of each head (Press et al., 2022).

    Nothing is learned and nothing is added to the tokens; a decoder extrapolates beyond
    its training length. In an encoder the distance is symmetric.
    """

    kind: Literal["alibi"] = "alibi"


@dataclass(frozen=True, kw_only=True)
class DirectedAlibiPositionConfig:
    """ALiBi for encoders (ours): half of the heads prefer each direction.

    A symmetric distance does not distinguish the tokens before and after. Heads form
    pairs with the same slope, one head for each direction; the slopes decrease from 1.
    """

    kind: Literal["directed_alibi"] = "directed_alibi"


@dataclass(frozen=True, kw_only=True)
class NoStretchConfig:
    """The frequencies as trained."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class LinearStretchConfig:
    """Positions divided by a factor (Chen et al., 2023)."""

    kind: Literal["linear"] = "linear"
    factor: float = option("Wanted length by trained length.", minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class NtkStretchConfig:
    """A larger base: the lowest frequency divided by the factor, the highest kept."""

    kind: Literal["ntk"] = "ntk"
    factor: float = option("Wanted length by trained length.", minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class YarnStretchConfig:
    """Each frequency by its turns in the trained length (Peng et al., 2023)."""

    kind: Literal["yarn"] = "yarn"
    factor: float = option("Wanted length by trained length.", minimum=1.0)
    original_length: int = option("Tokens the model was trained on.", minimum=1)
    beta_fast: float = option(
        "Frequencies that turn more often than this are kept.",
        default=32.0,
        minimum=0.0,
    )
    beta_slow: float = option(
        "Frequencies that turn less often are divided by the factor; between the two, "
        "in part.",
        default=1.0,
        minimum=0.001,
    )

    def __post_init__(self) -> None:
        if self.beta_slow >= self.beta_fast:
            raise ConfigError(
                f"beta_slow={self.beta_slow} must be less than "
                f"beta_fast={self.beta_fast}"
            )


@dataclass(frozen=True, kw_only=True)
class RopePositionConfig:
    """Queries and keys turn by an angle that grows with the place (Su et al., 2021)."""

    kind: Literal["rope"] = "rope"
    base: float = option(
        "The i-th pair of K turns by position / base ** (2i / K).",
        default=10_000.0,
        minimum=2.0,
    )
    stretch: (
        NoStretchConfig | LinearStretchConfig | NtkStretchConfig | YarnStretchConfig
    ) = option(
        "How frequencies change for texts longer than those trained on.",
        default=NoStretchConfig,
    )


Position = (
    LearnedPositionConfig
    | SinusoidalPositionConfig
    | RelativeBiasPositionConfig
    | AlibiPositionConfig
    | DirectedAlibiPositionConfig
    | RopePositionConfig
    | NoPositionConfig
)

_PLACEMENT = "`post` as in BERT: norm(x + f(x)); `pre` as in GPT-2: x + f(norm(x))."


@dataclass(frozen=True, kw_only=True)
class LayerNormConfig:
    """Each token's vector to mean 0 and variance 1, then rescaled."""

    kind: Literal["layer_norm"] = "layer_norm"
    placement: Literal["pre", "post"] = option(_PLACEMENT, default="post")
    epsilon: float = option(
        "Added to the variance.", default=1e-12, minimum=0.0, maximum=0.1
    )


@dataclass(frozen=True, kw_only=True)
class RmsNormConfig:
    """Each token's vector to mean square 1, then rescaled (Zhang & Sennrich, 2019)."""

    kind: Literal["rms_norm"] = "rms_norm"
    placement: Literal["pre", "post"] = option(_PLACEMENT, default="pre")
    epsilon: float = option(
        "Added to the mean square.", default=1e-6, minimum=0.0, maximum=0.1
    )


Norm = LayerNormConfig | RmsNormConfig

_INNER_DROPOUT = "Dropout on the vector in between."


@dataclass(frozen=True, kw_only=True)
class DenseFeedForwardConfig:
    """Two dense layers with an activation in between."""

    kind: Literal["dense"] = "dense"
    intermediate_dim: int = option("Width in between.", default=1024, minimum=1)
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = option(
        "`gelu` is the exact one, `gelu_tanh` its approximation.", default="gelu"
    )
    use_bias: bool = option("Whether the dense layers add a bias.", default=True)
    dropout: float = option(_INNER_DROPOUT, default=0.0, minimum=0.0, maximum=0.99)


@dataclass(frozen=True, kw_only=True)
class GatedFeedForwardConfig:
    """One dense layer gates another (Shazeer, 2020): GEGLU by gelu, SwiGLU by silu."""

    kind: Literal["gated"] = "gated"
    intermediate_dim: int = option("Width in between.", default=1024, minimum=1)
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = option(
        "Of the gate: `silu` makes SwiGLU, `gelu` GEGLU, `gelu_tanh` T5 1.1's GEGLU.",
        default="silu",
    )
    use_bias: bool = option("Whether the dense layers add a bias.", default=False)
    dropout: float = option(_INNER_DROPOUT, default=0.0, minimum=0.0, maximum=0.99)


FeedForward = DenseFeedForwardConfig | GatedFeedForwardConfig


@dataclass(frozen=True, kw_only=True)
class PlainResidualConfig:
    """x + dropout(f(x))."""

    kind: Literal["plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class ScaledResidualConfig:
    """x + dropout(f(x)) / sqrt(N), N sub-layers: the sum's variance does not grow."""

    kind: Literal["scaled"] = "scaled"


@dataclass(frozen=True, kw_only=True)
class ReZeroResidualConfig:
    """x + a dropout(f(x)), a learned and 0 at first (Bachlechner et al., 2020)."""

    kind: Literal["rezero"] = "rezero"


@dataclass(frozen=True, kw_only=True)
class DropPathResidualConfig:
    """x + f(x), and in training some rows go without f (Huang et al., 2016)."""

    kind: Literal["drop_path"] = "drop_path"
    rate: float = option(
        "Share of rows without the last block's sub-layers; less in earlier blocks, in "
        "equal steps from 0.",
        default=0.1,
        minimum=0.0,
        maximum=0.99,
    )


Residual = (
    PlainResidualConfig
    | ScaledResidualConfig
    | ReZeroResidualConfig
    | DropPathResidualConfig
)


@dataclass(frozen=True, kw_only=True)
class NormalInitializerConfig:
    """Normally distributed weights."""

    kind: Literal["normal"] = "normal"
    stddev: float = option(
        "Standard deviation.", default=0.02, minimum=0.0, maximum=1.0
    )
    truncated: bool = option(
        "Nothing beyond two standard deviations (BERT).", default=True
    )
    scale_residual: bool = option(
        "Divide the weights that end a sub-layer by sqrt(N), N sub-layers of the stack "
        "(GPT-2).",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class GlorotInitializerConfig:
    """Uniform weights, by the widths on both sides (Glorot & Bengio, 2010).

    Embeddings are normal with a deviation of hidden_dim ** -0.5 (as in tensor2tensor).
    """

    kind: Literal["glorot"] = "glorot"


Initializer = NormalInitializerConfig | GlorotInitializerConfig
