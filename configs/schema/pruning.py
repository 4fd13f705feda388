"""`training.pruning`: single weights that become zero while a model trains."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

# Matrices that layers multiply with.
KERNELS = ("*/kernel",)


@dataclass(frozen=True, kw_only=True)
class PruningConfig:
    """Magnitude pruning of single weights, at once or gradually (Zhu & Gupta, 2017).

    Pruned weights are zero in every later step, in the moving averages and in the final
    weights. Between begin_step and end_step the share of zeros grows as
    sparsity + (initial_sparsity - sparsity) (1 - progress)³: fast at first, when many
    weights can be spared.
    """

    sparsity: float = option(minimum=0.0, maximum=1.0)
    """Share of zeros after end_step, between 0 and 1."""

    initial_sparsity: float = option(0.0, minimum=0.0, maximum=1.0)
    """Share of zeros at begin_step; for initial weights that are already sparse."""

    begin_step: int = option(0, minimum=0)
    """Step after which weights are pruned for the first time; 0 for before the first
    step.
    """

    end_step: int = option(minimum=0)
    """Step after which the share of zeros is sparsity. The same as begin_step: all at
    once.
    """

    interval: int | None = option(None, minimum=1)
    """Steps from one pruning to the next. Left out: a hundredth of the steps from
    begin_step to end_step, at least 1.
    """

    scope: Literal["matrix", "global"] = "matrix"
    """matrix: the same share of every matrix is pruned; global: the smallest weights of
    all matrices, so that matrices of small weights lose more.
    """

    targets: tuple[str, ...] = KERNELS
    """Patterns of the paths of pruned weights, such as */feedforward/*/kernel or
    token_embedding/embeddings; as in file globs: * matches any characters, ? one
    character, [01] one of these. Biases, norms and frozen weights are never pruned.
    """

    def __post_init__(self) -> None:
        check_sparsity("sparsity", self.sparsity)
        if self.initial_sparsity > self.sparsity:
            raise ConfigError(
                f"initial_sparsity={self.initial_sparsity} is more than "
                f"sparsity={self.sparsity}: weights that are zero stay zero. Lower the "
                "first, or raise the second"
            )
        if self.end_step < self.begin_step:
            raise ConfigError(
                f"end_step={self.end_step} is before begin_step={self.begin_step}. "
                "Equal steps prune all at once"
            )
        if not self.targets:
            raise ConfigError(
                "targets=[] prunes nothing. Leave `training.pruning` out instead"
            )

    def is_due(self, step: int) -> bool:
        """Returns whether weights are pruned after a step; 0 is before the first.

        Example:
        >>> gradual = PruningConfig(sparsity=0.8, begin_step=2, end_step=7, interval=2)
        >>> [step for step in range(10) if gradual.is_due(step)]
        [2, 4, 6, 7]
        """
        if not self.begin_step <= step <= self.end_step:
            return False
        passed, length = step - self.begin_step, self.end_step - self.begin_step
        return passed == length or passed % (self.interval or length // 100 or 1) == 0

    def sparsity_at(self, step: int) -> float:
        """Share of zeros after a step.

        Example:
        >>> gradual = PruningConfig(sparsity=0.5, begin_step=2, end_step=6)
        >>> [gradual.sparsity_at(step) for step in (1, 2, 4, 6, 9)]
        [0.0, 0.0, 0.4375, 0.5, 0.5]
        """
        if step < self.begin_step:
            return 0.0
        if step >= self.end_step:
            return self.sparsity
        left = (self.end_step - step) / (self.end_step - self.begin_step)
        return self.sparsity + (self.initial_sparsity - self.sparsity) * left**3


def check_sparsity(name: str, share: float) -> None:
    """Checks a share of zeros to reach.

    Args:
        name: Its key or option.
        share: The share.

    Raises:
        ConfigError: The share is not between 0 and 1.

    Example:
    >>> check_sparsity("sparsity", 1.0)
    Traceback (most recent call last):
    ConfigError: sparsity=1.0 is not between 0 and 1: 0.5 sets half of the weights ...
    """
    if not 0 < share < 1:
        raise ConfigError(
            f"{name}={share} is not between 0 and 1: 0.5 sets half of the weights of "
            "the pruned matrices to zero, 0 none and 1 all"
        )
