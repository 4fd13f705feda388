"""Knowledge distillation: DistilBERT's loss, for every model family.

    loss = task_weight · task
         + teacher_weight · T² · KL(teacher's logits / T || student's logits / T)
         + cosine_weight · (1 - cos(teacher's last hidden state, student's))

The second term is a mean over real targets, the third a mean over real tokens; all
three terms are divided by the counts of the whole batch, so the losses of micro-batches
add up to the loss of the batch.

For regression the second term is the squared difference of the two predictions, from
which T cancels out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.model.functional.input_validation import CheckedModel
from transbeam.model.stack.layer_stack import LayerStack
from transbeam.trainer.distillation.teacher import begin_as, load_teacher
from transbeam.trainer.objectives.losses import Loss, Sums

_VECTORS = "sequence_output"
_TEACHER = "teacher/"


def learn_from_teacher(
    config: RunConfig,
    student: keras.Model,
    loss: Loss,
    vocabulary: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    is_new: bool = True,
) -> tuple[keras.Model, Loss]:
    """Sets up distillation from a run's teacher, if its configuration names one.

    Args:
        config: The run.
        student: The student's model; for a new training it is initialized with blocks
            of the teacher.
        loss: The task loss.
        vocabulary: The records' vocabulary, from their manifest.
        say: Prints a line to the user.
        is_new: True unless the training resumes from a checkpoint.

    Returns:
        The model to train, which shares the student's weights, and the loss to
        minimize.

    Raises:
        ArtifactError: The teacher does not exist, or has another tokenizer.
        ConfigError: The teacher does not fit the student.
    """
    distillation = config.training.distillation
    if distillation is None:
        return student, loss
    teacher = load_teacher(config, distillation, vocabulary)
    say(f"the teacher is {distillation.teacher}, {teacher.count_params():,} parameters")
    if is_new and distillation.copies:
        blocks = begin_as(student, teacher, distillation)
        say(f"initialized from its {' and '.join(blocks)}")
    if distillation.cosine_weight:
        student, teacher = with_vectors(student), with_vectors(teacher)
    return student, DistillationLoss(
        loss.targets,
        loss.label_smoothing,
        loss.z_loss,
        student=student,
        teacher=teacher,
        config=distillation,
    )


def with_vectors(model: keras.Model) -> keras.Model:
    """Adds the final hidden states to a model's outputs; the weights are shared.

    Args:
        model: A model of `transbeam.model`.

    Returns:
        A model with the further output `sequence_output`, `(B, T, D)`; for
        encoder-decoders `encoder_sequence_output` and `decoder_sequence_output`.
    """
    vectors = {
        prefix + _VECTORS: LayerStack.from_model(model, prefix).output
        for prefix in _layer_stacks(model)
    }
    return CheckedModel(model.input, {**model.output, **vectors}, name=model.name)


def _layer_stacks(model: keras.Model) -> list[str]:
    names = [tensor.name for tensor in model.inputs]
    return [x for x in ("encoder_", "decoder_") if f"{x}token_ids" in names] or [""]


@dataclass(frozen=True, kw_only=True)
class DistillationLoss(Loss):
    """The loss of a student on the targets and on its teacher's outputs.

    The teacher runs without dropout, before gradients are computed, and its outputs are
    added to the features of the batch (`prepare`). Checkpoints do not contain the
    teacher.

    Attributes:
        student: The model that is trained, with the outputs that are compared to the
            teacher's.
        teacher: The teacher, a model with the same outputs as `student`.
        config: The `training.distillation` section of a run.

    Raises:
        ConfigError: `cosine_weight` is set, and the hidden states differ in width.

    References:
        - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 2
        - [Hinton et al., 2015](https://arxiv.org/abs/1503.02531), section 2 (T²)
    """

    student: keras.Model
    teacher: keras.Model
    config: DistillationConfig

    def __post_init__(self) -> None:
        for name in self._vectors:
            here, there = (
                tuple(model.output[name].shape[1:])
                for model in (self.student, self.teacher)
            )
            if here != there:
                raise ConfigError(
                    "training.distillation.cosine_weight="
                    f"{self.config.cosine_weight} compares last vectors, and the "
                    f"student's are {here[-1]} wide, the teacher's {there[-1]}. Write "
                    "cosine_weight: 0, or make model.hidden_dim the same"
                )

    @property
    def _vectors(self) -> list[str]:
        """Names of the hidden states whose cosine enters the loss."""
        if not self.config.cosine_weight:
            return []
        return [name for name in self.student.output if name.endswith(_VECTORS)]

    @property
    def reads_scores(self) -> bool:
        return True

    @property
    def variables(self) -> Sequence[keras.Variable]:
        return self.teacher.variables

    def prepare(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        features = {tensor.name: batch[tensor.name] for tensor in self.teacher.inputs}
        answers = self.teacher(features, training=False)
        return {**batch, **{_TEACHER + name: x for name, x in answers.items()}}

    def counts(self, batch: Mapping[str, Any]) -> list[Any]:
        tokens = [ops.sum(self._real(name, batch)) for name in self._vectors]
        return [*super().counts(batch), *tokens]

    def no_sums(self) -> Sums:
        beside = [f"teacher_{target.output}" for target in self.targets]
        beside += [_cosine(name) for name in self._vectors]
        nothing = {
            name: {part: ops.zeros((), "float32") for part in ("cost", "count")}
            for name in beside
        }
        return {**super().no_sums(), **nothing}

    def __call__(
        self,
        outputs: Mapping[str, Any],
        batch: Mapping[str, Any],
        counts: Sequence[Any],
    ) -> tuple[Any, Sums]:
        """Computes the contribution of some records to the loss of a batch.

        Args:
            outputs: The student's outputs for these records.
            batch: The records' features, with the teacher's outputs (`prepare`).
            counts: Counts of the whole batch to which the records belong.

        Returns:
            See `Loss`. The sums have further entries for the two other terms, each with
            `cost` and `count`: `teacher_` and the output's name, the divergence in nats
            (for regression the squared difference); and `cosine`, or `encoder_cosine`
            and `decoder_cosine`.
        """
        of_targets, of_tokens = counts[: len(self.targets)], counts[len(self.targets) :]
        task, sums = super().__call__(outputs, batch, of_targets)
        config = self.config
        total = config.task_weight * task
        for target, count in zip(self.targets, of_targets, strict=True):
            answers = outputs[target.output], batch[_TEACHER + target.output]
            apart, scale = target.divergence(*answers, config.temperature)
            _, real = target.read(batch)
            part = sums[f"teacher_{target.output}"] = _sums(apart, real)
            weight = config.teacher_weight * scale
            total = total + weight * part["cost"] / ops.maximum(count, 1.0)
        for name, count in zip(self._vectors, of_tokens, strict=True):
            apart = 1.0 - cosine(outputs[name], batch[_TEACHER + name])
            part = sums[_cosine(name)] = _sums(apart, self._real(name, batch))
            share = part["cost"] / ops.maximum(count, 1.0)
            total = total + config.cosine_weight * share
        return total, sums

    def _real(self, name: str, batch: Mapping[str, Any]) -> Any:
        """Weight of each hidden state of an output: float32 `(B, T)`."""
        rows = batch.get(name.removesuffix(_VECTORS) + "document_ids")
        if rows is not None:
            return ops.cast(ops.greater(rows, 0), "float32")
        squares = self.student.output[name].shape[1]  # patches; an image counts once
        return ops.ones((ops.shape(batch["image"])[0], squares), "float32") / squares


def cosine(a: Any, b: Any) -> Any:
    """Cosine of the angle between vectors: `(..., D)` to `(...)`, float32.

    Example:
    >>> import numpy as np
    >>> float(cosine(np.array([3.0, 0.0]), np.array([3.0, 4.0])))
    0.6000000238418579
    """
    a, b = (ops.cast(vectors, "float32") for vectors in (a, b))
    # Padding may be a vector of zeros, whose length has no gradient.
    a, b = (
        x * ops.rsqrt(ops.maximum(ops.sum(x * x, axis=-1, keepdims=True), 1e-24))
        for x in (a, b)
    )
    return ops.sum(a * b, axis=-1)


def _cosine(name: str) -> str:
    return name.removesuffix(_VECTORS) + "cosine"


def _sums(costs: Any, weights: Any) -> dict[str, Any]:
    return {"cost": ops.sum(costs * weights), "count": ops.sum(weights)}
