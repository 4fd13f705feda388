"""`training.adaptation`: the trainable weights, or LoRA adapters."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

_PATTERNS = (
    "as for files: * stands for any characters, ? for one, [01] for one of these."
)


@dataclass(frozen=True, kw_only=True)
class AllWeightsConfig:
    """Every weight is trained."""

    kind: Literal["all"] = "all"


@dataclass(frozen=True, kw_only=True)
class FrozenWeightsConfig:
    """Some weights are not trained, and the optimizer stores nothing for them."""

    kind: Literal["freeze"] = "freeze"
    frozen: tuple[str, ...] = option(
        "Patterns of the paths of weights that stay, such as token_embedding/*, "
        f"encoder_layer_[0-5]/* or */bias; {_PATTERNS}"
    )

    def __post_init__(self) -> None:
        if not self.frozen:
            raise ConfigError("frozen=[] leaves nothing frozen. Write `kind: all`")


@dataclass(frozen=True, kw_only=True)
class LoraWeightsConfig:
    """Small adapters beside frozen weights (Hu et al., 2021); merged at the end."""

    kind: Literal["lora"] = "lora"
    rank: int = option(
        "How many numbers pass between the two matrices of an adapter.",
        default=8,
        minimum=1,
    )
    alpha: float | None = option(
        "Adapters count alpha / rank. Left out: rank.",
        default=None,
        minimum=1e-3,
        maximum=1e4,
    )
    targets: tuple[str, ...] = option(
        "Patterns of the paths of the dense layers that get an adapter, such as "
        f"*/self_attention/*; {_PATTERNS}",
        default=("*/query", "*/value"),
    )
    also_trained: tuple[str, ...] | None = option(
        "Patterns of the paths of weights that are trained whole. Left out: the head's "
        "and the pooler's, which may be new.",
        default=None,
    )

    def __post_init__(self) -> None:
        if not self.targets:
            raise ConfigError("targets=[] adapts nothing. Write `kind: freeze`")


Adaptation = AllWeightsConfig | FrozenWeightsConfig | LoraWeightsConfig
