"""`training.distillation`: knowledge distillation from a trained run."""

from dataclasses import dataclass
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


def _weight(default: float) -> Any:
    return option(default, minimum=0.0, maximum=1e4)


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """Distillation of a teacher into a student; the defaults are DistilBERT's."""

    teacher: str
    """Teacher: the folder of a finished run with the same tokenizer and objective."""

    temperature: float = option(2.0, minimum=0.1, maximum=100.0)
    """Divisor of the teacher's and the student's logits; higher values give softer
    probabilities.
    """

    task_weight: float = _weight(2.0)
    """Weight of the objective's own loss."""

    teacher_weight: float = _weight(5.0)
    """Weight of temperature² times the KL divergence of the student's output
    distribution from the teacher's; for regression, of the squared difference of their
    outputs.
    """

    cosine_weight: float = _weight(1.0)
    """Weight of 1 - cosine similarity of the last hidden states of student and teacher;
    use 0 where their hidden_dim differ.
    """

    layers: tuple[int, ...] | None = None
    """Teacher's blocks, counted from 0, that initialize the student's blocks, in order.
    Left out: as many as the student has, evenly spaced from the first. []: no weights
    are copied from the teacher, embeddings included.
    """

    decoder_layers: tuple[int, ...] | None = None
    """The same for the decoder of a seq2seq model."""

    def __post_init__(self) -> None:
        if not self.teacher_weight and not self.cosine_weight:
            raise ConfigError(
                "teacher_weight=0 and cosine_weight=0 leave nothing to learn from the "
                "teacher. Raise one, or remove `distillation`"
            )
        if not self.copies and self.decoder_layers:
            raise ConfigError(
                "layers=[] takes nothing from the teacher's weights, and "
                "decoder_layers names some. Remove one of the two"
            )

    @property
    def copies(self) -> bool:
        """True if the student is initialized with weights of its teacher.

        Example:
        >>> DistillationConfig(teacher="runs/bert", layers=()).copies
        False
        """
        return self.layers != ()
