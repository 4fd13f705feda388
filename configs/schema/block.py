"""The exchangeable parts of a block: position, norm, feed-forward, residual.

Each part is configured by a tagged union: the key `kind` selects the variant, which has
its own keys. Attention is in `attention.py`.
"""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig:
    """No position encoding; only causal masks convey order."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class LearnedPositionConfig:
    """One learned vector per position, added to the embeddings (BERT, GPT-2)."""

    kind: Literal["learned"] = "learned"
    offset: int = option(0, minimum=0)
    """Unused rows of the table before the first position (RoBERTa has 2)."""


@dataclass(frozen=True, kw_only=True)
class SinusoidalPositionConfig:
    """Fixed sines and cosines of increasing wavelength (Vaswani et al., 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    max_wavelength: float = option(10_000.0, minimum=1.0)
    """Longest wavelength."""


@dataclass(frozen=True, kw_only=True)
class RelativeBiasPositionConfig:
    """A learned bias per head and distance, added to the attention scores (T5).

    All blocks of a stack share one table of biases. Small distances have a bucket each;
    larger ones share buckets of increasing width (Raffel et al., 2020, 2.1).
    """

    kind: Literal["relative_bias"] = "relative_bias"
    num_buckets: int = option(32, minimum=4)
    """Number of distance buckets; an encoder uses half of them for each direction."""

    max_distance: int = option(128, minimum=2)
    """Distances from this one on share the last bucket."""

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
    """A linear penalty on distance, with a slope per head (Press et al., 2022).

    ALiBi has no weights and adds nothing to the embeddings; a decoder extrapolates
    beyond its training length. In an encoder the penalty depends on the absolute
    distance.
    """

    kind: Literal["alibi"] = "alibi"


@dataclass(frozen=True, kw_only=True)
class DirectedAlibiPositionConfig:
    """ALiBi for encoders: half of the heads favor keys on the left, half on the right.

    A penalty on the absolute distance does not distinguish earlier from later tokens.
    Heads form pairs, one head for each direction, with the same slope: 1 for the first
    pair, smaller for each further pair. Directed ALiBi was designed for Transbeam and
    has no paper.
    """

    kind: Literal["directed_alibi"] = "directed_alibi"


@dataclass(frozen=True, kw_only=True)
class NoStretchConfig:
    """Rotary embeddings with the original frequencies, without scaling."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class LinearStretchConfig:
    """Position interpolation: positions divided by a factor (Chen et al., 2023)."""

    kind: Literal["linear"] = "linear"
    factor: float = option(minimum=1.0)
    """Ratio of the desired length to the trained length."""


@dataclass(frozen=True, kw_only=True)
class NtkStretchConfig:
    """NTK-aware base: lowest frequency divided by the factor, highest unchanged."""

    kind: Literal["ntk"] = "ntk"
    factor: float = option(minimum=1.0)
    """Ratio of the desired length to the trained length."""


@dataclass(frozen=True, kw_only=True)
class YarnStretchConfig:
    """YaRN: scaling by the rotations within the trained length (Peng et al., 2023)."""

    kind: Literal["yarn"] = "yarn"
    factor: float = option(minimum=1.0)
    """Ratio of the desired length to the trained length."""

    original_length: int = option(minimum=1)
    """Maximum sequence length in training, in tokens."""

    beta_fast: float = option(32.0, minimum=0.0)
    """Frequencies with more rotations than this within original_length are kept."""

    beta_slow: float = option(1.0, minimum=0.001)
    """Frequencies with fewer rotations than this are divided by the factor; those
    between beta_slow and beta_fast are interpolated.
    """

    def __post_init__(self) -> None:
        if self.beta_slow >= self.beta_fast:
            raise ConfigError(
                f"beta_slow={self.beta_slow} must be less than "
                f"beta_fast={self.beta_fast}"
            )


@dataclass(frozen=True, kw_only=True)
class RopePositionConfig:
    """Rotary embeddings: rotates queries and keys by position (Su et al., 2021)."""

    kind: Literal["rope"] = "rope"
    base: float = option(10_000.0, minimum=2.0)
    """Base of the rotation angles: the i-th pair of the K rotated dimensions is rotated
    by position / base ** (2i / K).
    """

    stretch: (
        NoStretchConfig | LinearStretchConfig | NtkStretchConfig | YarnStretchConfig
    ) = option(NoStretchConfig)
    """Scaling of the frequencies for texts longer than those in training."""


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
    """Layer normalization: mean 0 and variance 1, then a learned scale and offset."""

    kind: Literal["layer_norm"] = "layer_norm"
    placement: Literal["pre", "post"] = option("post", doc=_PLACEMENT)
    epsilon: float = option(1e-12, minimum=0.0, maximum=0.1)
    """Added to the variance for numerical stability."""


@dataclass(frozen=True, kw_only=True)
class RmsNormConfig:
    """RMSNorm: mean square 1, then a learned scale (Zhang & Sennrich, 2019)."""

    kind: Literal["rms_norm"] = "rms_norm"
    placement: Literal["pre", "post"] = option("pre", doc=_PLACEMENT)
    epsilon: float = option(1e-6, minimum=0.0, maximum=0.1)
    """Added to the mean square for numerical stability."""


Norm = LayerNormConfig | RmsNormConfig

_INNER_DROPOUT = "Dropout on the intermediate activations."


@dataclass(frozen=True, kw_only=True)
class DenseFeedForwardConfig:
    """Two dense layers with an activation in between."""

    kind: Literal["dense"] = "dense"
    intermediate_dim: int = option(1024, minimum=1)
    """Size of the intermediate activations."""

    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """`gelu` is exact, `gelu_tanh` its tanh approximation."""

    use_bias: bool = True
    """Add a bias in the dense layers."""

    dropout: float = option(0.0, minimum=0.0, maximum=0.99, doc=_INNER_DROPOUT)


@dataclass(frozen=True, kw_only=True)
class GatedFeedForwardConfig:
    """Gated linear units (Shazeer, 2020): GEGLU with gelu, SwiGLU with silu."""

    kind: Literal["gated"] = "gated"
    intermediate_dim: int = option(1024, minimum=1)
    """Size of the intermediate activations."""

    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "silu"
    """Activation of the gate: `silu` makes SwiGLU, `gelu` GEGLU, `gelu_tanh` T5 1.1's
    GEGLU.
    """

    use_bias: bool = False
    """Add a bias in the dense layers."""

    dropout: float = option(0.0, minimum=0.0, maximum=0.99, doc=_INNER_DROPOUT)


@dataclass(frozen=True, kw_only=True)
class NoFeedForwardConfig:
    """Attention-only blocks: no feed-forward, nor its norm (Elhage et al., 2021)."""

    kind: Literal["none"] = "none"


FeedForward = DenseFeedForwardConfig | GatedFeedForwardConfig | NoFeedForwardConfig


@dataclass(frozen=True, kw_only=True)
class PlainResidualConfig:
    """The standard residual connection: x + dropout(f(x))."""

    kind: Literal["plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class ScaledResidualConfig:
    """x + dropout(f(x)) / sqrt(N) for N sub-layers, which limits the variance."""

    kind: Literal["scaled"] = "scaled"


@dataclass(frozen=True, kw_only=True)
class ReZeroResidualConfig:
    """x + a * dropout(f(x)), a learned, initially 0 (Bachlechner et al., 2020)."""

    kind: Literal["rezero"] = "rezero"


@dataclass(frozen=True, kw_only=True)
class DropPathResidualConfig:
    """Stochastic depth: random training rows skip sub-layers (Huang et al., 2016)."""

    kind: Literal["drop_path"] = "drop_path"
    rate: float = option(0.1, minimum=0.0, maximum=0.99)
    """Drop rate of the last block; the rates of earlier blocks increase linearly from
    0.
    """


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
    stddev: float = option(0.02, minimum=0.0, maximum=1.0)
    """Standard deviation."""

    truncated: bool = True
    """Truncate the distribution at two standard deviations (BERT)."""

    scale_residual: bool = False
    """Divide the output weights of each sub-layer by sqrt(N), with N the number of
    sub-layers in the stack (GPT-2).
    """


@dataclass(frozen=True, kw_only=True)
class GlorotInitializerConfig:
    """Glorot uniform: scaled by fan-in and fan-out (Glorot & Bengio, 2010).

    Embeddings are normal with a standard deviation of hidden_dim ** -0.5, as in
    tensor2tensor.
    """

    kind: Literal["glorot"] = "glorot"


Initializer = NormalInitializerConfig | GlorotInitializerConfig
