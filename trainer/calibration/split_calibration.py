"""Calibration of a model's probabilities on a split."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.probability_quality import (
    ProbabilityQuality,
    measure_probabilities,
)
from transbeam.trainer.calibration.reliability_diagram import reliability_diagram
from transbeam.trainer.metrics.confidence_intervals import Interval

_AS_TRAINED = "as trained"


@dataclass(frozen=True)
class SplitCalibration:
    """The measured calibration of a split's predictions.

    Attributes:
        event: The event whose probability is assessed, in words.
        before: Measures of the model's own probabilities.
        prefix: Prefix of the names of the scores.
    """

    event: str
    before: ProbabilityQuality
    prefix: str = ""

    def scores(self) -> dict[str, Interval]:
        """The scores of the model's own probabilities, by name."""
        return {f"{self.prefix}{n}": of for n, of in self.before.scores.items()}

    def diagram(self) -> Markup:
        """Draws the reliability diagram."""
        return reliability_diagram({_AS_TRAINED: self.before.bins}, self.event)

    def as_json(self) -> dict[str, Any]:
        """Returns the event and the bins, in the order of their probabilities."""
        return {"event": self.event, "bins": {"before": self.before.rows()}}


def calibrate_split(
    logits: ClassLogits, seed: int, prefix: str = ""
) -> SplitCalibration:
    """Measures the calibration of a split's predictions.

    Args:
        logits: The logits of the predictions.
        seed: Seed of the bootstrap.
        prefix: Prefix of the names of the scores.
    """
    event = "the predicted class is right"
    if logits.event is not None:
        event = "the label applies"
    return SplitCalibration(event, measure_probabilities(logits, seed), prefix)
