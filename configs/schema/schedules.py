"""`training.schedule`: the learning rate schedule."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from transbeam.configs.base.fields import option


def _peak() -> Any:
    return option(
        1e-3,
        minimum=1e-9,
        maximum=10.0,
        doc="Largest learning rate. Lion needs about a tenth of AdamW's and Muon's; "
        "for Adafactor it is relative to the root mean square of each weight.",
    )


# Largest number of steps of a warm-up that is left out.
_MOST_STEPS = 100
_MOST_STEPS_OF_NOAM = 4_000


def _warmup_steps(minimum: int = 0, most: int = _MOST_STEPS) -> Any:
    return option(
        None,
        minimum=minimum,
        doc="Steps of linear warm-up to the peak. Left out: a tenth of all steps, at "
        f"most {most:,}; a training that is continued for more steps keeps its number.",
    )


def _final_fraction() -> Any:
    doc = "Learning rate at the last step, as a fraction of the peak."
    return option(0.0, minimum=0.0, maximum=1.0, doc=doc)


@dataclass(frozen=True, kw_only=True)
class CosineScheduleConfig:
    """Linear warm-up to the peak, then cosine decay."""

    kind: Literal["cosine"] = "cosine"
    peak: float = _peak()
    warmup_steps: int | None = _warmup_steps()
    final_fraction: float = _final_fraction()


@dataclass(frozen=True, kw_only=True)
class LinearScheduleConfig:
    """Linear warm-up to the peak, then linear decay, as in BERT."""

    kind: Literal["linear"] = "linear"
    peak: float = _peak()
    warmup_steps: int | None = _warmup_steps()
    final_fraction: float = _final_fraction()


@dataclass(frozen=True, kw_only=True)
class ConstantScheduleConfig:
    """Linear warm-up to the peak, then a constant rate."""

    kind: Literal["constant"] = "constant"
    peak: float = _peak()
    warmup_steps: int | None = _warmup_steps()


@dataclass(frozen=True, kw_only=True)
class InverseSqrtScheduleConfig:
    """Linear warm-up, then peak · sqrt(warmup_steps / step), as in T5 and fairseq."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    peak: float = _peak()
    warmup_steps: int | None = _warmup_steps(minimum=1)


@dataclass(frozen=True, kw_only=True)
class NoamScheduleConfig:
    """The original Transformer's schedule (Vaswani et al., 2017, eq. 3).

    factor · hidden_dim^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)
    """

    kind: Literal["noam"] = "noam"
    factor: float = option(1.0, minimum=1e-6, maximum=1e3)
    """Factor on the learning rate of the paper."""

    warmup_steps: int | None = _warmup_steps(minimum=1, most=_MOST_STEPS_OF_NOAM)


@dataclass(frozen=True, kw_only=True)
class WsdScheduleConfig:
    """Warmup-stable-decay: a constant peak, then decay (MiniCPM; Hu et al., 2024).

    Before the decay, the learning rates do not depend on the total number of steps.
    """

    kind: Literal["wsd"] = "wsd"
    peak: float = _peak()
    warmup_steps: int | None = _warmup_steps()
    decay_fraction: float = option(0.1, minimum=0.0, maximum=1.0)
    """Share of all steps, at the end, in which the rate decays."""

    shape: Literal["linear", "sqrt"] = "sqrt"
    """Shape of the decay: linear, or 1 - sqrt(progress), which decays faster at first
    (Hägele et al., 2024).
    """

    final_fraction: float = _final_fraction()

    def decay_steps(self, steps: int) -> int:
        """The number of decay steps in a run.

        Example:
        >>> WsdScheduleConfig(decay_fraction=0.2).decay_steps(50)
        10
        """
        return round(self.decay_fraction * steps)


Schedule = (
    CosineScheduleConfig
    | LinearScheduleConfig
    | ConstantScheduleConfig
    | InverseSqrtScheduleConfig
    | NoamScheduleConfig
    | WsdScheduleConfig
)


def count_warmup_steps(schedule: Schedule, steps: int) -> int:
    """The number of warm-up steps: the configured one, or a share of all steps.

    Args:
        schedule: The schedule.
        steps: The total number of training steps.

    Example:
    >>> [count_warmup_steps(CosineScheduleConfig(), steps) for steps in (60, 10_000)]
    [6, 100]
    """
    if schedule.warmup_steps is not None:
        return schedule.warmup_steps
    left = steps
    if isinstance(schedule, WsdScheduleConfig):
        left -= schedule.decay_steps(steps)
    warmup = min(steps // 10, most_warmup(schedule), left)
    at_least_one = isinstance(schedule, NoamScheduleConfig | InverseSqrtScheduleConfig)
    return max(warmup, int(at_least_one))


def most_warmup(schedule: Schedule) -> int:
    """The largest default number of warm-up steps."""
    return (
        _MOST_STEPS_OF_NOAM if isinstance(schedule, NoamScheduleConfig) else _MOST_STEPS
    )


def with_warmup(schedule: Schedule, steps: int) -> Schedule:
    """Replaces an omitted number of warm-up steps by its default."""
    return replace(schedule, warmup_steps=count_warmup_steps(schedule, steps))


# Schedules whose rates do not depend on the total number of steps.
ENDLESS = (ConstantScheduleConfig, InverseSqrtScheduleConfig, NoamScheduleConfig)


def common_steps(schedule: Schedule, steps: int, others: int) -> int:
    """Counts the initial steps with equal learning rates in two trainings.

    Args:
        schedule: The schedule, in which the number of warm-up steps is set.
        steps: Total steps of the first training.
        others: Total steps of the second training.

    Example:
    >>> common_steps(ConstantScheduleConfig(warmup_steps=3), 20, 30)
    20
    >>> common_steps(WsdScheduleConfig(warmup_steps=3, decay_fraction=0.2), 20, 30)
    16
    >>> common_steps(CosineScheduleConfig(warmup_steps=3), 20, 30)
    3
    """
    shorter = min(steps, others)
    if steps == others or isinstance(schedule, ENDLESS):
        return shorter
    if isinstance(schedule, WsdScheduleConfig):
        return min(n - schedule.decay_steps(n) for n in (steps, others))
    return min(count_warmup_steps(schedule, steps), shorter)
