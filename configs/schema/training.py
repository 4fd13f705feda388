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
from transbeam.configs.schema.pruning import PruningConfig
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
    model_devices: int = option(minimum=2)
    """Number of devices that each copy of the model is sharded over."""


Distribution = DataParallelConfig | ModelParallelConfig


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """Records of another run as additional training data."""

    run: str
    """Folder of a run whose data job has finished."""

    weight: float = option(1.0, minimum=1e-6)
    """Batches drawn from it per batch of this run's own records."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimization of the model on the records."""

    steps: int | None = option(None, minimum=1)
    """Number of optimizer updates. Required, unless epochs is given."""

    epochs: float | None = option(None, minimum=1e-6, maximum=1e6)
    """Passes over the run's training records, such as 3 or 0.5, in place of steps. The
    number of steps is rounded up, and said at the start of the training.
    """

    batch_size: int = option(32, minimum=1)
    """Records per update."""

    datasets: tuple[DatasetConfig, ...] = ()
    """Additional records to train on: a list of {run: runs/other, weight: 0.5}. They
    must have this run's tokenizer, objective and length.
    """

    accumulation: int = option(1, minimum=1)
    """Gradient accumulation: micro-batches per update. Memory is that of batch_size /
    accumulation records, the update that of batch_size.
    """

    optimizer: Optimizer = option(AdamWConfig)
    """Optimizer."""

    schedule: Schedule = option(CosineScheduleConfig)
    """Learning rate schedule."""

    clip_norm: float | None = option(1.0, minimum=1e-6)
    """Gradients whose global norm is larger are scaled down to it. null: no clipping.
    """

    label_smoothing: float = option(0.0, minimum=0.0, maximum=0.5)
    """Share of each target's probability that is spread evenly over all classes."""

    z_loss: float = option(0.0, minimum=0.0, maximum=1.0)
    """Weight of log²(sum of exponentials of the logits), which keeps the logits from
    drifting; PaLM uses 1e-4.
    """

    ema_decay: float | None = option(None, minimum=0.0, maximum=0.99999)
    """Decay rate of an exponential moving average of the weights. Left out: no moving
    average.
    """

    init_from: str | None = None
    """Older form of model.init_from that takes only the weights: the run's tokenizer
    and the keys of its `model` must be repeated in this configuration. Left out: random
    initialization.
    """

    initial_weights: str | None = None
    """File of initial weights, such as `transbeam import` writes to a run's folder;
    instead of init_from.
    """

    adaptation: Adaptation = option(AllWeightsConfig)
    """Trainable weights, or LoRA adapters."""

    pruning: PruningConfig | None = None
    """Pruning of single weights while the model trains. Left out: no pruning."""

    distillation: DistillationConfig | None = None
    """Knowledge distillation from a trained model. Left out: training on the records
    alone.
    """

    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Number format of the matrix products. Variables stay float32. With mixed_float16
    the loss is scaled, so that small gradients are not lost.
    """

    rematerialize: bool = False
    """Gradient checkpointing: store only each block's input and recompute the block for
    the gradient. Less memory for one more forward pass.
    """

    distribution: Distribution = option(DataParallelConfig)
    """Distribution over several devices."""

    deterministic: bool = False
    """Reproduce results bit for bit on one machine; somewhat slower."""

    shuffle_records: int = option(16_384, minimum=1)
    """Size of the shuffle buffer in records."""

    log_every: int = option(10, minimum=1)
    """Steps between entries of the training log (metrics.jsonl)."""

    evaluate_every: int = option(200, minimum=1)
    """Steps between validations; a checkpoint is written with each."""

    analyze_every: int | None = option(None, minimum=1)
    """Steps between analyses of the attention heads on a few held-out texts
    (analysis.jsonl, a chart in the report, and TensorBoard). Left out: no analysis.
    """

    validation_batches: int = option(8, minimum=1)
    """Batches per validation during training; the last validation reads the whole
    split.
    """

    samples: int = option(5, minimum=0)
    """Number of validation documents that the report shows with the model's
    predictions.
    """

    final_weights: Literal["last", "best"] = "last"
    """Final weights: those of the last step, or of the checkpoint with the lowest
    validation loss, or with the best `best_metric`.
    """

    best_metric: str | None = None
    """Metric of the validation by which `final_weights: best` selects a checkpoint,
    such as `accuracy` or `entity_f1`: the highest value, of `mae` and losses the
    lowest. Left out: the loss.
    """

    keep_checkpoints: int = option(2, minimum=1)
    """Number of most recent checkpoints to keep."""

    max_skipped_steps: int = option(20, minimum=1)
    """Consecutive steps with a loss or gradient that is not finite before the training
    stops with an error.
    """

    def __post_init__(self) -> None:
        self._check_length()
        self._check_beginning()
        self._check_pruning()
        if self.best_metric is not None and self.final_weights == "last":
            raise ConfigError(
                f"best_metric={self.best_metric} selects the best checkpoint, and with "
                "final_weights=last the weights are those of the last step. Write "
                "`final_weights: best`, or remove `best_metric`"
            )
        if self.analyze_every and isinstance(self.adaptation, LoraWeightsConfig):
            raise ConfigError(
                f"analyze_every={self.analyze_every}: with adaptation.kind=lora the "
                "weights of the model stay as they are until the adapters are merged. "
                "Leave it out, and run `transbeam analyze` after the training"
            )
        if self.batch_size % self.accumulation:
            raise ConfigError(
                f"accumulation={self.accumulation} does not divide "
                f"batch_size={self.batch_size}: micro-batches are of one size"
            )
        if self.steps is not None:
            self._check_schedule(self.steps)

    @property
    def total_steps(self) -> int:
        """The number of optimizer updates.

        Raises:
            ValueError: The configuration has epochs, and its records have not been
                counted: see `transbeam.pipeline.records.epochs.settle_steps`.
        """
        if self.steps is None:
            raise ValueError(f"epochs={self.epochs} have not been converted to steps")
        return self.steps

    def with_steps(self, steps: int) -> "TrainingConfig":
        """Replaces the length of the training, steps or epochs, by a number of steps.

        Raises:
            ConfigError: The schedule does not fit the number of steps.
        """
        return replace(self, steps=steps, epochs=None)

    def with_warmup(self, steps: int | None = None) -> "TrainingConfig":
        """Replaces an omitted number of warm-up steps by its default.

        The default is a share of all steps; while these are not known, because the
        configuration has epochs, it stays omitted.

        Args:
            steps: The number of warm-up steps to use if the configuration has none;
                None for the default share of all steps.
        """
        schedule = self.schedule
        if schedule.warmup_steps is None and steps is not None:
            schedule = replace(schedule, warmup_steps=steps)
        if self.steps is not None:
            schedule = with_warmup(schedule, self.steps)
        return replace(self, schedule=schedule)

    def _check_length(self) -> None:
        """Checks that exactly one of steps and epochs is given."""
        if self.steps is None and self.epochs is None:
            raise ConfigError(
                "its length is missing. Write `steps: 1000`, the number of optimizer "
                "updates, or `epochs: 3`, the number of passes over the records"
            )
        if self.steps is not None and self.epochs is not None:
            raise ConfigError(
                f"steps={self.steps} and epochs={self.epochs:g} both say how long to "
                "train. Remove one of them"
            )

    def _check_schedule(self, steps: int) -> None:
        """Checks that warm-up and decay fit into the steps."""
        schedule = self.schedule
        warmup_steps = count_warmup_steps(schedule, steps)
        if warmup_steps > steps:
            raise ConfigError(
                f"schedule.warmup_steps={warmup_steps} is more than "
                f"steps={steps}. Left out, it is a tenth of them"
            )
        if isinstance(schedule, WsdScheduleConfig):
            decay_steps = schedule.decay_steps(steps)
            if warmup_steps + decay_steps > steps:
                raise ConfigError(
                    f"schedule.decay_fraction={schedule.decay_fraction} of "
                    f"steps={steps} is {decay_steps} steps, which leaves no room "
                    f"for schedule.warmup_steps={warmup_steps}"
                )

    def _check_beginning(self) -> None:
        """Checks the keys of initial weights: at most one, and present if required."""
        given = {"init_from": self.init_from, "initial_weights": self.initial_weights}
        named = [f"{key}={value}" for key, value in given.items() if value is not None]
        if len(named) > 1:
            raise ConfigError(
                f"{' and '.join(named)}: a training begins once. Remove one of them"
            )
        copies = self.distillation is not None and self.distillation.copies
        if copies and named:
            raise ConfigError(
                f"{named[0]}, and the student also begins with blocks of its teacher. "
                "Write `layers: []` in `distillation`, or remove the other"
            )
        if isinstance(self.adaptation, LoraWeightsConfig) and not (named or copies):
            raise ConfigError(
                "adaptation.kind=lora trains adapters beside weights that stay as they "
                "are, and without init_from these are random. Name a run to begin "
                "with, or write `kind: all`"
            )

    def _check_pruning(self) -> None:
        """Checks that pruning ends with the training, and that its zeros would stay."""
        pruning = self.pruning
        if pruning is None:
            return
        if self.steps is not None and pruning.end_step > self.steps:
            raise ConfigError(
                f"pruning.end_step={pruning.end_step} is more than steps={self.steps}, "
                "so the final weights would not be as sparse as configured. Lower it: "
                "the steps after it train the weights that are left"
            )
        if isinstance(self.adaptation, LoraWeightsConfig):
            raise ConfigError(
                "pruning, and adaptation.kind=lora: the adapters are merged into the "
                "kernels at the end, which leaves no zeros. Train all weights, or "
                "prune the run afterwards with `transbeam prune --weights`"
            )
