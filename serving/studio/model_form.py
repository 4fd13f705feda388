"""Names one model of a run: the finished weights, a checkpoint, or an exported file."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelForm:
    """A run's finished weights in Keras; or a checkpoint, or a TFLite file.

    Attributes:
        run: The run's name.
        checkpoint: The step of a checkpoint; None for the finished weights.
        tflite: The variant of an exported file, such as `dynamic_int8`; None for Keras.

    Example:
    >>> print(ModelForm("demo", checkpoint=500), ModelForm("demo", tflite="int8"))
    demo (checkpoint 500) demo (TFLite int8)
    """

    run: str
    checkpoint: int | None = None
    tflite: str | None = None

    def __str__(self) -> str:
        if self.tflite is not None:
            return f"{self.run} (TFLite {self.tflite})"
        if self.checkpoint is not None:
            return f"{self.run} (checkpoint {self.checkpoint})"
        return self.run

    def as_json(self) -> dict[str, Any]:
        return {"run": self.run, "checkpoint": self.checkpoint, "tflite": self.tflite}
