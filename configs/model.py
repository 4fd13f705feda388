"""`model`: one Transformer block with five sockets, and how often it is stacked.

Each socket is a tagged union: `kind` chooses the part, and only the keys of that
part exist.
"""

from dataclasses import dataclass
from typing import Literal

from configs.errors import ConfigError
from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class LearnedPosition:
    """One learned vector per position, added to the token's (BERT, GPT-2)."""

    kind: Literal["learned"] = "learned"


@dataclass(frozen=True, kw_only=True)
class SinusoidalPosition:
    """Fixed sines and cosines of growing wavelength (Vaswani et al., 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    max_wavelength: float = option("Longest wavelength.", default=10_000.0, minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class AlibiPosition:
    """Attention scores fall with the distance (Press et al., 2022), in both directions.

    Nothing is learned and nothing is added to the tokens. The paper's bias is for
    decoders; here half of the heads lean left and half right.
    """

    kind: Literal["alibi"] = "alibi"


@dataclass(frozen=True, kw_only=True)
class FullAttention:
    """Every token attends to every other of its document."""

    kind: Literal["full"] = "full"
    num_heads: int = option("Parallel attention heads.", default=4, minimum=1)
    dropout: float = option(
        "Dropout on the attention probabilities.",
        default=0.1,
        minimum=0.0,
        maximum=0.99,
    )


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """Normalises each token's vector, before or after the sub-layer."""

    kind: Literal["layer_norm"] = "layer_norm"
    placement: Literal["pre", "post"] = option(
        "`post` as in BERT: norm(x + f(x)); `pre` as in GPT-2: x + f(norm(x)).",
        default="post",
    )
    epsilon: float = option(
        "Added to the variance.", default=1e-12, minimum=0.0, maximum=0.1
    )


@dataclass(frozen=True, kw_only=True)
class DenseFeedForward:
    """Two dense layers with an activation in between."""

    kind: Literal["dense"] = "dense"
    intermediate_dim: int = option("Width in between.", default=1024, minimum=1)
    activation: Literal["gelu", "gelu_tanh", "relu"] = option(
        "`gelu` is the exact one, `gelu_tanh` its approximation.", default="gelu"
    )


@dataclass(frozen=True, kw_only=True)
class PlainResidual:
    """x + dropout(f(x))."""

    kind: Literal["plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """A bidirectional encoder in the manner of BERT."""

    kind: Literal["encoder"] = "encoder"
    num_layers: int = option("How many blocks.", default=4, minimum=1)
    hidden_dim: int = option("Width of a token's vector.", default=256, minimum=1)
    max_sequence_length: int = option(
        "Longest input the positions know.", default=128, minimum=1
    )
    num_segments: int = option(
        "Kinds of segment (BERT's sentence A and B are 2); 0 for none.",
        default=0,
        minimum=0,
    )
    dropout: float = option(
        "Dropout after the embeddings and after each sub-layer.",
        default=0.1,
        minimum=0.0,
        maximum=0.99,
    )
    initializer_range: float = option(
        "Standard deviation of the initial weights (truncated normal).",
        default=0.02,
        minimum=0.0,
        maximum=1.0,
    )
    position: LearnedPosition | SinusoidalPosition | AlibiPosition = option(
        "How a token's place is told.", default=LearnedPosition
    )
    attention: FullAttention = option(
        "How tokens look at each other.", default=FullAttention
    )
    norm: LayerNorm = option("Which norm, and where.", default=LayerNorm)
    feedforward: DenseFeedForward = option(
        "What happens to each token alone.", default=DenseFeedForward
    )
    residual: PlainResidual = option(
        "How a sub-layer's result joins its input.", default=PlainResidual
    )

    def __post_init__(self) -> None:
        if self.hidden_dim % self.attention.num_heads:
            raise ConfigError(
                f"hidden_dim={self.hidden_dim} is not a multiple of "
                f"attention.num_heads={self.attention.num_heads}"
            )
        if isinstance(self.position, AlibiPosition) and self.attention.num_heads % 2:
            raise ConfigError(
                f"attention.num_heads={self.attention.num_heads} is odd; position.kind="
                "alibi needs pairs of heads, one for each direction"
            )
