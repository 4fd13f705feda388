"""`training`: how long, how fast and with what the model learns."""

from dataclasses import dataclass
from typing import Literal

from configs.errors import ConfigError
from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class AdamWConfig:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019).

    Biases, norms and embeddings are not decayed.
    """

    kind: Literal["adamw"] = "adamw"
    beta_1: float = option(
        "Decay of the mean.", default=0.9, minimum=0.0, maximum=0.9999
    )
    beta_2: float = option(
        "Decay of the mean square.", default=0.98, minimum=0.0, maximum=0.99999
    )
    epsilon: float = option(
        "Added to the root.", default=1e-6, minimum=1e-12, maximum=1.0
    )
    weight_decay: float = option(
        "Share of a weight taken off per step, times the learning rate.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
    clip_norm: float = option(
        "Largest norm of all gradients together.", default=1.0, minimum=1e-6
    )


@dataclass(frozen=True, kw_only=True)
class CosineSchedule:
    """Linear warm-up to the peak, then half a cosine down."""

    kind: Literal["cosine"] = "cosine"
    peak: float = option(
        "Largest learning rate.", default=1e-3, minimum=1e-9, maximum=10.0
    )
    warmup_steps: int = option("Steps to reach it.", default=100, minimum=0)
    final_fraction: float = option(
        "What is left of the peak at the last step.",
        default=0.0,
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """One fit of the model to the records."""

    steps: int = option("Optimizer updates.", minimum=1)
    batch_size: int = option("Records per update.", default=32, minimum=1)
    optimizer: AdamWConfig = option(
        "What turns gradients into updates.", default=AdamWConfig
    )
    schedule: CosineSchedule = option(
        "The learning rate over time.", default=CosineSchedule
    )
    initial_weights: str | None = option(
        "A file of weights to begin with, as `transbeam import` leaves in a run's "
        "folder; a head that is not in it is new. Left out: random ones.",
        default=None,
    )
    precision: Literal["float32", "mixed_bfloat16"] = option(
        "Number format of the matrix products. Variables stay float32.",
        default="float32",
    )
    shuffle_records: int = option(
        "Records held in memory to shuffle among.", default=16_384, minimum=1
    )
    evaluate_every: int = option(
        "Steps between validations; a checkpoint is written with each.",
        default=200,
        minimum=1,
    )
    validation_batches: int = option(
        "Batches of a validation while training; the last one reads the whole split.",
        default=8,
        minimum=1,
    )
    keep_checkpoints: int = option(
        "How many of the last to keep.", default=2, minimum=1
    )

    def __post_init__(self) -> None:
        if self.schedule.warmup_steps > self.steps:
            raise ConfigError(
                f"schedule.warmup_steps={self.schedule.warmup_steps} is more than "
                f"steps={self.steps}"
            )
