"""Logits of a split's predictions, collected over batches, and their probabilities."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import ClassObjective, Objective
from transbeam.trainer.objectives.targets import LabelSetTarget, Target, make_targets

# Logits that are converted to float64 at once: 32 MB.
_MOST_CONVERTED = 1 << 22


@dataclass(frozen=True)
class ClassLogits:
    """The logits of M choices among C classes, with the right classes.

    Attributes:
        logits: float32 (M, C).
        targets: int (M,). The right class of each choice.
        units: int (M,), ascending. The record of each choice.
        count: Number of records.
        event: The class whose probability is assessed; None for the predicted class,
            which has the highest probability.
    """

    logits: np.ndarray
    targets: np.ndarray
    units: np.ndarray
    count: int
    event: int | None = None

    def blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yields rows in blocks: their slice, logits and targets.

        The logits are float64, minus the highest of their row.
        """
        size = max(1, _MOST_CONVERTED // max(self.logits.shape[1], 1))
        for start in range(0, len(self.logits), size):
            rows = slice(start, start + size)
            logits = self.logits[rows].astype(np.float64)
            logits -= logits.max(axis=1, keepdims=True)
            yield rows, logits, self.targets[rows]

    def nats(self, temperature: float = 1.0) -> float:
        """Mean negative log-likelihood of the right classes, at a temperature."""
        total = 0.0
        for _, logits, targets in self.blocks():
            scaled = logits / temperature
            right = scaled[np.arange(len(targets)), targets]
            total += float((np.log(np.exp(scaled).sum(axis=1)) - right).sum())
        return total / len(self.targets) if len(self.targets) else np.nan

    def assess(self, temperature: float = 1.0) -> "AssessedEvents":
        """Computes the probabilities of events, and squared errors, at a temperature.

        Example:
        >>> logits = np.log(np.array([[0.2, 0.8], [0.7, 0.3]], np.float32))
        >>> found = ClassLogits(logits, np.array([1, 1]), np.arange(2), 2).assess()
        >>> found.probabilities.round(4), found.occurred
        (array([0.8, 0.7]), array([ True, False]))
        >>> found.squared_errors.round(4)
        array([0.08, 0.98])
        """
        found: list[tuple[np.ndarray, ...]] = []
        for _, logits, targets in self.blocks():
            odds = np.exp(logits / temperature)
            shares = odds / odds.sum(axis=1, keepdims=True)
            rows = np.arange(len(targets))
            event = logits.argmax(axis=1) if self.event is None else self.event
            p, right = shares[rows, event], shares[rows, targets]
            if self.event is None:
                errors = (shares**2).sum(axis=1) - 2 * right + 1
            else:  # the event alone, which occurs or not
                errors = (p - (targets == event)) ** 2
            found.append((p, targets == event, errors))
        none = np.zeros(0), np.zeros(0, bool), np.zeros(0)
        p, occurred, errors = map(np.concatenate, zip(none, *found, strict=True))
        return AssessedEvents(p, occurred, errors, self.units, self.count)


@dataclass(frozen=True)
class AssessedEvents:
    """Predicted probabilities of M events.

    Attributes:
        probabilities: float64 (M,).
        occurred: bool (M,).
        squared_errors: float64 (M,). Of the probabilities of the choice.
        units: int (M,). The record of each event.
        count: Number of records.
    """

    probabilities: np.ndarray
    occurred: np.ndarray
    squared_errors: np.ndarray
    units: np.ndarray
    count: int


@dataclass
class LogitCollector:
    """Collects the logits of a target's predictions over batches.

    Attributes:
        target: The target; `Loss.answers` must return its logits.
    """

    target: Target
    _logits: list[np.ndarray] = field(default_factory=list)
    _targets: list[np.ndarray] = field(default_factory=list)
    _units: list[np.ndarray] = field(default_factory=list)
    _count: int = 0

    def __call__(
        self,
        answers: Mapping[str, Mapping[str, np.ndarray]],
        batch: Mapping[str, np.ndarray],
    ) -> None:
        logits = answers[self.target.output]["logits"]
        targets, weights = batch[self.target.targets], self.target.weights
        real = np.ones(targets.shape, bool) if weights is None else batch[weights] > 0
        self._logits.append(logits[real])
        self._targets.append(targets[real])
        self._units.append(np.nonzero(real)[0] + self._count)
        self._count += len(targets)

    def collected(self) -> ClassLogits:
        """Returns the logits of all batches.

        Each label of a label set is a choice of its own, between 0 and the label's
        logit, and the event is that the label applies.
        """
        logits, targets, units = map(
            np.concatenate, (self._logits, self._targets, self._units)
        )
        if not isinstance(self.target, LabelSetTarget):
            return ClassLogits(logits, targets, units, self._count)
        pairs = np.stack([np.zeros_like(logits), logits], axis=-1)
        return ClassLogits(pairs, targets, units, self._count, event=1)


def collect_logits(objective: Objective) -> LogitCollector | None:
    """Makes the collector of an objective; None if it has no `calibrated_target`."""
    target = calibrated_target(objective)
    return None if target is None else LogitCollector(target)


def calibrated_outputs(objective: Objective) -> frozenset[str]:
    """Returns the outputs whose logits a `LogitCollector` reads, for `make_loss`."""
    target = calibrated_target(objective)
    return frozenset() if target is None else frozenset({target.output})


def calibrated_target(objective: Objective) -> Target | None:
    """Returns the target whose predictions are classes with probabilities.

    Returns:
        The target; None if the objective has no classes, such as a regression, or a
        vocabulary for classes.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import ClassificationConfig
    >>> calibrated_target(ClassificationConfig(labels=("no", "yes"))).output
    'logits'
    """
    targets = make_targets(objective)
    if isinstance(objective, SentencePairsConfig):
        return targets[1]  # the first are tokens
    return targets[0] if isinstance(objective, ClassObjective) else None
