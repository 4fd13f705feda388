"""`training`: steps, batches, optimizer, schedule, initial weights and checkpoints."""

from dataclasses import dataclass, replace
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.adaptation import (
    Adaptation,
    AllWeightsConfig,
    LoraWeightsConfig,
)
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.optimizers import AdamWConfig, Optimizer
from transbeam.configs.schema.schedules import (
    CosineScheduleConfig,
    Schedule,
    WsdScheduleConfig,
    count_warmup_steps,
    with_warmup,
)


@dataclass(frozen=True, kw_only=True)
class DataParallelConfig:
    """Data parallelism: each device holds the model and processes part of each batch.

    Data parallelism uses all accelerators of all workers; with a single device it has
    no effect.
    """

    kind: Literal["data_parallel"] = "data_parallel"


@dataclass(frozen=True, kw_only=True)
class ModelParallelConfig:
    """Tensor parallelism: a model too large for one device is sharded over several.

    Large matrices are sharded along heads, hidden units or the vocabulary (Shoeybi et
    al., 2019). A group of devices of one worker holds one copy of the model; each group
    processes part of the batch. On JAX only.
    """

    kind: Literal["model_parallel"] = "model_parallel"
    model_devices: int = option(
        "Number of devices that each copy of the model is sharded over.", minimum=2
    )


Distribution = DataParallelConfig | ModelParallelConfig


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """Records of another run as additional training data."""

    run: str = option("Folder of a run whose data job has finished.")
    weight: float = option(
        "Batches drawn from it per batch of this run's own records.",
        default=1.0,
        minimum=1e-6,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimization of the model on the records."""

    steps: int = option("Number of optimizer updates.", minimum=1)
    batch_size: int = option("Records per update.", default=32, minimum=1)
    datasets: tuple[DatasetConfig, ...] = option(
        "Additional records to train on: a list of {run: runs/other, weight: 0.5}. "
        "They must have this run's tokenizer, objective and length.",
        default=(),
    )
    accumulation: int = option(
        "Gradient accumulation: micro-batches per update. Memory is that of "
        "batch_size / accumulation records, the update that of batch_size.",
        default=1,
        minimum=1,
    )
    optimizer: Optimizer = option("Optimizer.", default=AdamWConfig)
    schedule: Schedule = option("Learning rate schedule.", default=CosineScheduleConfig)
    clip_norm: float | None = option(
        "Gradients whose global norm is larger are scaled down to it. null: no "
        "clipping.",
        default=1.0,
        minimum=1e-6,
    )
    label_smoothing: float = option(
        "Share of each target's probability that is spread evenly over all classes.",
        default=0.0,
        minimum=0.0,
        maximum=0.5,
    )
    z_loss: float = option(
        "Weight of log²(sum of exponentials of the logits), which keeps the logits "
        "from drifting; PaLM uses 1e-4.",
        default=0.0,
        minimum=0.0,
        maximum=1.0,
    )
    ema_decay: float | None = option(
        "Decay rate of an exponential moving average of the weights. Left out: no "
        "moving average.",
        default=None,
        minimum=0.0,
        maximum=0.99999,
    )
    init_from: str | None = option(
        "Older form of model.init_from that takes only the weights: the run's "
        "tokenizer and the keys of its `model` must be repeated in this "
        "configuration. Left out: random initialization.",
        default=None,
    )
    initial_weights: str | None = option(
        "File of initial weights, such as `transbeam import` writes to a run's "
        "folder; instead of init_from.",
        default=None,
    )
    adaptation: Adaptation = option(
        "Trainable weights, or LoRA adapters.", default=AllWeightsConfig
    )
    distillation: DistillationConfig | None = option(
        "Knowledge distillation from a trained model. Left out: training on the "
        "records alone.",
        default=None,
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = option(
        "Number format of the matrix products. Variables stay float32. With "
        "mixed_float16 the loss is scaled, so that small gradients are not lost.",
        default="float32",
    )
    rematerialize: bool = option(
        "Gradient checkpointing: store only each block's input and recompute the "
        "block for the gradient. Less memory for one more forward pass.",
        default=False,
    )
    distribution: Distribution = option(
        "Distribution over several devices.", default=DataParallelConfig
    )
    deterministic: bool = option(
        "Reproduce results bit for bit on one machine; somewhat slower.",
        default=False,
    )
    shuffle_records: int = option(
        "Size of the shuffle buffer in records.", default=16_384, minimum=1
    )
    log_every: int = option(
        "Steps between entries of the training log (metrics.jsonl).",
        default=10,
        minimum=1,
    )
    evaluate_every: int = option(
        "Steps between validations; a checkpoint is written with each.",
        default=200,
        minimum=1,
    )
    validation_batches: int = option(
        "Batches per validation during training; the last validation reads the whole "
        "split.",
        default=8,
        minimum=1,
    )
    samples: int = option(
        "Number of validation documents that the report shows with the model's "
        "predictions.",
        default=5,
        minimum=0,
    )
    final_weights: Literal["last", "best"] = option(
        "Final weights: those of the last step, or of the checkpoint with the lowest "
        "validation loss.",
        default="last",
    )
    keep_checkpoints: int = option(
        "Number of most recent checkpoints to keep.", default=2, minimum=1
    )
    max_skipped_steps: int = option(
        "Consecutive steps with a loss or gradient that is not finite before the "
        "training stops with an error.",
        default=20,
        minimum=1,
    )

    def __post_init__(self) -> None:
        self._check_beginning()
        if self.batch_size % self.accumulation:
            raise ConfigError(
                f"accumulation={self.accumulation} does not divide "
                f"batch_size={self.batch_size}: micro-batches are of one size"
            )
        schedule = self.schedule
        warmup_steps = count_warmup_steps(schedule, self.steps)
        if warmup_steps > self.steps:
            raise ConfigError(
                f"schedule.warmup_steps={warmup_steps} is more than "
                f"steps={self.steps}. Left out, it is a tenth of them"
            )
        if isinstance(schedule, WsdScheduleConfig):
            decay_steps = schedule.decay_steps(self.steps)
            if warmup_steps + decay_steps > self.steps:
                raise ConfigError(
                    f"schedule.decay_fraction={schedule.decay_fraction} of "
                    f"steps={self.steps} is {decay_steps} steps, which leaves no room "
                    f"for schedule.warmup_steps={warmup_steps}"
                )

    def with_warmup(self, steps: int | None = None) -> "TrainingConfig":
        """Replaces an omitted number of warm-up steps by its default.

        Args:
            steps: The number to use if the configuration has none; None for the default
                share of all steps.
        """
        schedule = self.schedule
        if schedule.warmup_steps is None and steps is not None:
            schedule = replace(schedule, warmup_steps=steps)
        return replace(self, schedule=with_warmup(schedule, self.steps))

    def _check_beginning(self) -> None:
        """Checks the keys of initial weights: at most one, and present if required."""
        given = {"init_from": self.init_from, "initial_weights": self.initial_weights}
        named = [f"{key}={value}" for key, value in given.items() if value is not None]
        if len(named) > 1:
            raise ConfigError(
                f"{' and '.join(named)}: a training begins once. Take one of them away"
            )
        copies = self.distillation is not None and self.distillation.copies
        if copies and named:
            raise ConfigError(
                f"{named[0]}, and the student also begins with blocks of its teacher. "
                "Write `layers: []` in `distillation`, or take the other away"
            )
        if isinstance(self.adaptation, LoraWeightsConfig) and not (named or copies):
            raise ConfigError(
                "adaptation.kind=lora trains adapters beside weights that stay as they "
                "are, and without init_from these are random. Name a run to begin "
                "with, or write `kind: all`"
            )
