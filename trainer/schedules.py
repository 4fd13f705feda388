"""Learning rates over time."""

import math

import keras
from keras import ops

from configs.training import CosineSchedule


@keras.saving.register_keras_serializable(package="transbeam")
class WarmupCosine(keras.optimizers.schedules.LearningRateSchedule):
    """Rises in a line to the peak, then falls along half a cosine.

    Args:
        peak: Largest learning rate.
        warmup_steps: Updates until it is reached; the first update already uses
            `peak / warmup_steps`.
        steps: Updates in all.
        final_fraction: What is left of the peak at the end.

    Example:
    >>> schedule = WarmupCosine(1.0, warmup_steps=2, steps=6)
    >>> [round(float(schedule(step)), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]

    References:
        - [Loshchilov & Hutter, 2017](https://arxiv.org/abs/1608.03983), eq. 5
    """

    def __init__(
        self, peak: float, warmup_steps: int, steps: int, final_fraction: float = 0.0
    ):
        super().__init__()
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.steps = steps
        self.final_fraction = final_fraction

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = (step + 1.0) / max(self.warmup_steps, 1)
        progress = (step - self.warmup_steps) / max(self.steps - self.warmup_steps, 1)
        progress = ops.clip(progress, 0.0, 1.0)
        cosine = 0.5 * (1.0 + ops.cos(math.pi * progress))
        falling = self.final_fraction + (1.0 - self.final_fraction) * cosine
        return self.peak * ops.where(step < self.warmup_steps, rising, falling)

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "steps": self.steps,
            "final_fraction": self.final_fraction,
        }


def build_schedule(config: CosineSchedule, steps: int) -> WarmupCosine:
    """The schedule a configuration asks for."""
    return WarmupCosine(config.peak, config.warmup_steps, steps, config.final_fraction)
