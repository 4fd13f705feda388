"""Calibration of a model's probabilities on a split, before and after a temperature."""

from collections.abc import Mapping
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

AS_TRAINED = "as trained"


@dataclass(frozen=True)
class Temperature:
    """A temperature and its origin.

    Attributes:
        value: The number by which logits are divided; 1 if they stay as they are, and
            None if nothing was fitted.
        note: Where it was fitted, or why it was not, in words; it may be empty.
    """

    value: float | None
    note: str

    @property
    def changes_probabilities(self) -> bool:
        return self.value not in (None, 1.0)


@dataclass(frozen=True)
class SplitCalibration:
    """The measured calibration of a split's predictions.

    Attributes:
        event: The event whose probability is assessed, in words.
        before: Measures of the model's own probabilities.
        after: Measures of the probabilities at the temperature; None if it changes
            nothing.
        temperature: The temperature.
        prefix: Prefix of the names of the scores.
    """

    event: str
    before: ProbabilityQuality
    after: ProbabilityQuality | None
    temperature: Temperature
    prefix: str = ""

    def scores(self) -> dict[str, Interval]:
        """The scores of the model's own probabilities, by name."""
        return {f"{self.prefix}{n}": of for n, of in self.before.scores.items()}

    def qualities(self) -> Mapping[str, ProbabilityQuality]:
        """The measures by the name of the probabilities."""
        if self.after is None:
            return {AS_TRAINED: self.before}
        name = f"temperature {self.temperature.value:.3g}"
        return {AS_TRAINED: self.before, name: self.after}

    def diagram(self) -> Markup:
        """Draws the reliability diagram."""
        bins = {name: quality.bins for name, quality in self.qualities().items()}
        return reliability_diagram(bins, self.event)

    def __str__(self) -> str:
        """Describes what the temperature changes, in one line."""
        value, note = self.temperature.value, self.temperature.note
        if self.after is None:
            return f"no temperature: {note}" if note else ""
        before, after = self.before.scores, self.after.scores
        changed = ", ".join(
            f"{name.replace('_', ' ')} {before[name].score:.3f} to {of.score:.3f} "
            f"({of.low:.3f} to {of.high:.3f})"
            for name, of in after.items()
        )
        nats = f"nats {self.before.nats:.3f} to {self.after.nats:.3f}"
        return f"temperature {value:.3f}, {note}: {nats}, {changed}"

    def as_json(self) -> dict[str, Any]:
        """Returns the temperature, and all measures before and after it."""
        qualities = {"before": self.before}
        if self.after is not None:
            qualities["after"] = self.after
        return {
            "event": self.event,
            "temperature": self.temperature.value,
            "note": self.temperature.note,
            "nats": {name: quality.nats for name, quality in qualities.items()},
            **{
                score: {
                    name: quality.scores[score]._asdict()
                    for name, quality in qualities.items()
                }
                for score in self.before.scores
            },
            "bins": {name: quality.rows() for name, quality in qualities.items()},
        }


def calibrate_split(
    logits: ClassLogits, seed: int, temperature: Temperature, prefix: str = ""
) -> SplitCalibration:
    """Measures the calibration of a split's predictions.

    Args:
        logits: The logits of the predictions.
        seed: Seed of the bootstrap.
        temperature: The temperature; probabilities are measured before and after it.
        prefix: Prefix of the names of the scores.
    """
    event = "the predicted class is right"
    if logits.event is not None:
        event = "the label applies"
    before, after = measure_probabilities(logits, seed), None
    if temperature.value is not None and temperature.changes_probabilities:
        after = measure_probabilities(logits, seed, temperature.value)
    return SplitCalibration(event, before, after, temperature, prefix)
