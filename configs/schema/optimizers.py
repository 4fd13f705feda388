"""`training.optimizer`: AdamW, Adafactor, Lion and Muon."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

# Zero is no neutral value for these: decay would remove a bias's offset, shrink a
# norm's output, and make the vectors of rare tokens alike.
NOT_DECAYED = ("bias$", "gamma$", "beta$", "scale$", "embeddings?$")


def _decay_rate(default: float, minimum: float = 0.0) -> Any:
    return option(default, minimum=minimum, maximum=0.99999)


def _epsilon(default: float) -> Any:
    doc = "Added to the denominator for numerical stability."
    return option(default, minimum=1e-12, maximum=1.0, doc=doc)


def _weight_decay(default: float, maximum: float = 1.0) -> Any:
    doc = "Weight decay coefficient, multiplied by the learning rate in each step."
    return option(default, minimum=0.0, maximum=maximum, doc=doc)


def _not_decayed() -> Any:
    return option(
        NOT_DECAYED,
        doc="Regular expressions, searched in a weight's path: weights that match one "
        "are not decayed.",
    )


class OptimizerConfig:
    """Base class: checks the regular expressions in `not_decayed`."""

    not_decayed: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.not_decayed:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(
                    f"not_decayed={pattern!r} is not a regular expression: {error}. A "
                    "point, a bracket or another sign that is meant as it stands needs "
                    "a \\ before it"
                ) from None


@dataclass(frozen=True, kw_only=True)
class AdamWConfig(OptimizerConfig):
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019)."""

    kind: Literal["adamw"] = "adamw"
    beta_1: float = _decay_rate(0.9)
    """Decay rate of the moving average of gradients."""

    beta_2: float = _decay_rate(0.98)
    """Decay rate of the moving average of squared gradients."""

    epsilon: float = _epsilon(1e-6)
    weight_decay: float = _weight_decay(0.01)
    not_decayed: tuple[str, ...] = _not_decayed()


@dataclass(frozen=True, kw_only=True)
class AdafactorConfig(OptimizerConfig):
    """Adafactor: factored second moments (Shazeer & Stern, 2018).

    The optimizer state is small. The learning rate is relative to the root mean square
    of each weight, so a peak of 1e-2 is usual.
    """

    kind: Literal["adafactor"] = "adafactor"
    decay_exponent: float = option(0.8, minimum=0.1, maximum=1.0)
    """Exponent of the second moment's decay rate: 1 - t^-decay_exponent at step t."""

    epsilon_1: float = option(1e-30, minimum=1e-36, maximum=1.0)
    """Added to squared gradients."""

    epsilon_2: float = option(1e-3, minimum=1e-12, maximum=1.0)
    """Lower bound of a weight's root mean square, by which its updates are scaled."""

    clip_threshold: float = option(1.0, minimum=1e-3, maximum=1e3)
    """Updates with a root mean square above this are scaled down to it, before the
    learning rate.
    """

    weight_decay: float = _weight_decay(0.0)
    not_decayed: tuple[str, ...] = _not_decayed()


@dataclass(frozen=True, kw_only=True)
class LionConfig(OptimizerConfig):
    """Lion: sign of the momentum, half of Adam's memory (Chen et al., 2023).

    Every weight changes by the learning rate itself: use a peak 3 to 10 times smaller
    than Adam's, and a weight decay larger by the same factor.
    """

    kind: Literal["lion"] = "lion"
    beta_1: float = _decay_rate(0.9, minimum=1e-3)
    """Weight of the moving average in its interpolation with the gradient, whose sign
    is the update.
    """

    beta_2: float = _decay_rate(0.99)
    """Decay rate of the moving average of gradients."""

    weight_decay: float = _weight_decay(0.1, maximum=100.0)
    not_decayed: tuple[str, ...] = _not_decayed()


@dataclass(frozen=True, kw_only=True)
class MuonConfig(OptimizerConfig):
    """Muon: orthogonalized momentum for hidden matrices (Jordan et al., 2024).

    Embeddings, output layers, biases and norms are updated by Adam. Updates are scaled
    to the size of Adam's (Liu et al., 2025, eq. 4), so Adam's learning rates can be
    used.
    """

    kind: Literal["muon"] = "muon"
    momentum: float = _decay_rate(0.95)
    """Decay rate of the momentum."""

    beta_1: float = _decay_rate(0.9)
    """Decay rate of Adam's moving average of gradients."""

    beta_2: float = _decay_rate(0.95)
    """Decay rate of Adam's moving average of squared gradients."""

    epsilon: float = _epsilon(1e-8)
    weight_decay: float = _weight_decay(0.1)
    not_decayed: tuple[str, ...] = _not_decayed()


Optimizer = AdamWConfig | AdafactorConfig | LionConfig | MuonConfig
