"""`training.adaptation`: the trainable weights, or LoRA adapters."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class AllWeightsConfig:
    """Every weight is trained."""

    kind: Literal["all"] = "all"


@dataclass(frozen=True, kw_only=True)
class FrozenWeightsConfig:
    """Some weights are frozen and have no optimizer state."""

    kind: Literal["freeze"] = "freeze"
    frozen: tuple[str, ...]
    """Patterns of the paths of frozen weights, such as token_embedding/*,
    encoder_layer_[0-5]/* or */bias; as in file globs: * matches any characters, ? one
    character, [01] one of these.
    """

    def __post_init__(self) -> None:
        if not self.frozen:
            raise ConfigError("frozen=[] leaves nothing frozen. Write `kind: all`")


@dataclass(frozen=True, kw_only=True)
class LoraWeightsConfig:
    """LoRA adapters on frozen weights, merged after training (Hu et al., 2021)."""

    kind: Literal["lora"] = "lora"
    rank: int = option(8, minimum=1)
    """Rank of the adapters' matrices."""

    alpha: float | None = option(None, minimum=1e-3, maximum=1e4)
    """Adapters are scaled by alpha / rank. Left out: rank, a scale of 1."""

    targets: tuple[str, ...] = ("*/query", "*/value")
    """Patterns of the paths of the dense layers that get an adapter, such as
    */self_attention/*; as in file globs: * matches any characters, ? one character,
    [01] one of these.
    """

    also_trained: tuple[str, ...] | None = None
    """Patterns of the paths of weights that are trained in full. Left out: those of the
    head and the pooler, which may be newly initialized.
    """

    def __post_init__(self) -> None:
        if not self.targets:
            raise ConfigError("targets=[] adapts nothing. Write `kind: freeze`")


Adaptation = AllWeightsConfig | FrozenWeightsConfig | LoraWeightsConfig


def check_trained(numbers: int) -> None:
    """Raises a ConfigError if no number of the weights is trained."""
    if not numbers:
        raise ConfigError(
            "training.adaptation.frozen: the patterns freeze all weights, so nothing "
            "would be trained. Leave some weights out"
        )
