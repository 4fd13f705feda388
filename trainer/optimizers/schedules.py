"""Learning rate schedules."""

import math
from collections.abc import Callable
from typing import Any, assert_never

import keras
from keras import ops

from transbeam.configs.schema.schedules import (
    ConstantScheduleConfig,
    CosineScheduleConfig,
    InverseSqrtScheduleConfig,
    LinearScheduleConfig,
    NoamScheduleConfig,
    Schedule,
    WsdScheduleConfig,
    count_warmup_steps,
)

# The remaining share of the decay, after a share of the decay's steps.
SHAPES: dict[str, Callable[[Any], Any]] = {
    "cosine": lambda progress: 0.5 * (1.0 + ops.cos(math.pi * progress)),
    "linear": lambda progress: 1.0 - progress,
    "sqrt": lambda progress: 1.0 - ops.sqrt(progress),
}


@keras.saving.register_keras_serializable(package="transbeam")
class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to a constant peak.

    Args:
        peak: Largest learning rate.
        warmup_steps: Updates until the peak; the first update already uses
            `peak / warmup_steps`.

    Call arguments:
        step: Updates done so far: 0 for the first one.

    Example:
    >>> schedule = Warmup(1.0, warmup_steps=4)
    >>> [float(schedule(step)) for step in range(6)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """

    def __init__(self, peak: float, warmup_steps: int):
        super().__init__()
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = (step + 1.0) / max(self.warmup_steps, 1)
        share = ops.where(step < self.warmup_steps, rising, self.share_after(step))
        return self.peak * share

    def share_after(self, step):
        """The rate at a step after the warm-up, as a share of the peak."""
        return ops.ones_like(step)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="transbeam")
class WarmupDecay(Warmup):
    """Linear warm-up to a peak, and a decay in the last steps of a run.

    Args:
        peak: See `Warmup`.
        warmup_steps: See `Warmup`.
        steps: Updates in total.
        decay_steps: Number of updates at the end, during which the rate decays.
        shape: Shape of the decay: half a `"cosine"`, `"linear"`, or one minus the
            square root (`"sqrt"`).
        final_fraction: The final rate, as a fraction of the peak.

    Example:
    >>> schedule = WarmupDecay(1.0, 2, steps=6, decay_steps=4, shape="cosine")
    >>> [round(float(schedule(step)), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]

    References:
        - [Loshchilov & Hutter, 2017](https://arxiv.org/abs/1608.03983), eq. 5 (cosine)
        - [Hu et al., 2024](https://arxiv.org/abs/2404.06395), eq. 1 (a stable peak,
          then a decay)
        - [Hägele et al., 2024](https://arxiv.org/abs/2405.18392), eq. 2 (square root)
    """

    def __init__(
        self,
        peak: float,
        warmup_steps: int,
        steps: int,
        decay_steps: int,
        shape: str,
        final_fraction: float = 0.0,
    ):
        super().__init__(peak, warmup_steps)
        self.steps = steps
        self.decay_steps = decay_steps
        self.shape = shape
        self.final_fraction = final_fraction

    def share_after(self, step):
        start = self.steps - self.decay_steps
        progress = ops.clip((step - start) / max(self.decay_steps, 1), 0.0, 1.0)
        left = SHAPES[self.shape](progress)
        return self.final_fraction + (1.0 - self.final_fraction) * left

    def get_config(self):
        return {
            **super().get_config(),
            "steps": self.steps,
            "decay_steps": self.decay_steps,
            "shape": self.shape,
            "final_fraction": self.final_fraction,
        }


@keras.saving.register_keras_serializable(package="transbeam")
class WarmupInverseSqrt(Warmup):
    """Linear warm-up to a peak, and a decay by the inverse square root of the step.

    The n-th update, counted from 1, has `peak * sqrt(warmup_steps / n)`.

    Args:
        peak: See `Warmup`.
        warmup_steps: See `Warmup`; at least 1.

    Example:
    >>> schedule = WarmupInverseSqrt(1.0, warmup_steps=1)
    >>> [float(schedule(step)) for step in (0, 3, 15)]
    [1.0, 0.5, 0.25]

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), eq. 3
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), section 3.1.2
    """

    def share_after(self, step):
        return ops.sqrt(self.warmup_steps / (step + 1.0))


def build_schedule(config: Schedule, steps: int, hidden_dim: int) -> Warmup:
    """Builds the schedule of a configuration.

    Args:
        config: The `training.schedule` section of a run.
        steps: Updates in total.
        hidden_dim: The model's width, on which Noam's peak depends.

    Example:
    >>> schedule = build_schedule(NoamScheduleConfig(warmup_steps=4), 10, hidden_dim=16)
    >>> [float(schedule(step)) for step in (0, 3)]
    [0.03125, 0.125]
    """
    warmup = count_warmup_steps(config, steps)
    match config:
        case CosineScheduleConfig() | LinearScheduleConfig():
            fraction = config.final_fraction
            return WarmupDecay(
                config.peak, warmup, steps, steps - warmup, config.kind, fraction
            )
        case ConstantScheduleConfig():
            return Warmup(config.peak, warmup)
        case InverseSqrtScheduleConfig():
            return WarmupInverseSqrt(config.peak, warmup)
        case NoamScheduleConfig():
            # The paper's two branches meet at the last step of the warm-up.
            peak = config.factor * (hidden_dim * warmup) ** -0.5
            return WarmupInverseSqrt(peak, warmup)
        case WsdScheduleConfig():
            return WarmupDecay(
                config.peak,
                warmup,
                steps,
                config.decay_steps(steps),
                config.shape,
                config.final_fraction,
            )
        case _:
            assert_never(config)
