"""`training.adaptation`: the trainable weights, or LoRA adapters."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

_PATTERNS = (
    "as in file globs: * matches any characters, ? one character, [01] one of these."
)


@dataclass(frozen=True, kw_only=True)
class AllWeightsConfig:
    """Every weight is trained."""

    kind: Literal["all"] = "all"


@dataclass(frozen=True, kw_only=True)
class FrozenWeightsConfig:
    """Some weights are frozen and have no optimizer state."""

    kind: Literal["freeze"] = "freeze"
    frozen: tuple[str, ...] = option(
        "Patterns of the paths of frozen weights, such as token_embedding/*, "
        f"encoder_layer_[0-5]/* or */bias; {_PATTERNS}"
    )

    def __post_init__(self) -> None:
        if not self.frozen:
            raise ConfigError("frozen=[] leaves nothing frozen. Write `kind: all`")


@dataclass(frozen=True, kw_only=True)
class LoraWeightsConfig:
    """LoRA adapters on frozen weights, merged after training (Hu et al., 2021)."""

    kind: Literal["lora"] = "lora"
    rank: int = option(
        "Rank of the adapters' matrices.",
        default=8,
        minimum=1,
    )
    alpha: float | None = option(
        "Adapters are scaled by alpha / rank. Left out: rank, a scale of 1.",
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
        "Patterns of the paths of weights that are trained in full. Left out: those "
        "of the head and the pooler, which may be newly initialized.",
        default=None,
    )

    def __post_init__(self) -> None:
        if not self.targets:
            raise ConfigError("targets=[] adapts nothing. Write `kind: freeze`")


Adaptation = AllWeightsConfig | FrozenWeightsConfig | LoraWeightsConfig
