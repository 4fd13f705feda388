"""Collectors of evaluation results over batches: confusions, worst records, losses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from transbeam.trainer.metrics.classification import confusion
from transbeam.trainer.objectives.objective_metrics import Answers, Batch
from transbeam.trainer.objectives.targets import Target


@dataclass
class Confusions:
    """Accumulates a confusion matrix.

    Attributes:
        target: The target.
        labels: The names of the classes.
        table: int64 (C, C), targets in rows and predictions in columns.
    """

    target: Target
    labels: tuple[str, ...]
    table: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.table = np.zeros((len(self.labels),) * 2, np.int64)

    def __call__(self, answers: Answers, batch: Batch) -> None:
        weights = None if self.target.weights is None else batch[self.target.weights]
        guesses = answers[self.target.output]["guesses"]
        self.table += confusion(
            guesses, batch[self.target.targets], self.labels, weights
        )

    def as_json(self) -> dict[str, Any]:
        """Returns `labels`, and `counts`: of each class how often each was guessed."""
        return {"labels": list(self.labels), "counts": self.table.tolist()}


@dataclass(frozen=True)
class EvaluatedRecord:
    """A record with its targets and predictions.

    Attributes:
        number: The record's row, counted over all batches.
        cost: Summed loss of its targets: nats, or squared errors of numbers.
        targets: (n,). The real targets of the objective's first output.
        guesses: (n,). The predictions.
        costs: float (n,). The loss of each target.
        tokens: int (T,). The model's input, without padding; empty for an image.
    """

    number: int
    cost: float
    targets: np.ndarray
    guesses: np.ndarray
    costs: np.ndarray
    tokens: np.ndarray

    @property
    def cost_per_target(self) -> float:
        return self.cost / max(len(self.targets), 1)


@dataclass
class WorstRows:
    """Collects a given number of records with the highest loss.

    Attributes:
        target: The target.
        most: Number of records to keep.
        wrong_only: If true, records whose predictions are all correct are ignored.
        per_target: If true, records are ranked by their mean loss per target, else by
            the sum.
        rows: The kept records, the highest loss first.
    """

    target: Target
    most: int
    wrong_only: bool
    per_target: bool = False
    rows: list[EvaluatedRecord] = field(default_factory=list)
    _seen: int = 0

    def __call__(self, answers: Answers, batch: Batch) -> None:
        answer = answers[self.target.output]
        cost, count = answer["cost"], answer["count"]
        rank = cost / np.maximum(count, 1) if self.per_target else cost
        counts = (answer["correct"] < count) if self.wrong_only else count > 0
        order = np.argsort(-rank, kind="stable")
        chosen = order[counts[order]][: self.most]
        self.rows += [
            make_evaluated_record(self.target, self._seen + row, row, answers, batch)
            for row in chosen.tolist()
        ]
        key = "cost_per_target" if self.per_target else "cost"
        self.rows.sort(key=lambda row: -getattr(row, key))
        del self.rows[self.most :]
        self._seen += len(cost)


def make_evaluated_record(
    target: Target, number: int, row: int, answers: Answers, batch: Batch
) -> EvaluatedRecord:
    """Extracts a record of a batch with its targets and predictions.

    Args:
        target: The target.
        number: The record's row, counted over all batches.
        row: The record's row in the batch.
        answers: The result of `Loss.answers` for the batch.
        batch: The batch's features.
    """
    answer = answers[target.output]
    targets = np.atleast_1d(target.wanted(batch)[row])
    real = (
        np.ones(targets.shape, bool)
        if target.weights is None
        else batch[target.weights][row] > 0
    )
    return EvaluatedRecord(
        number,
        float(answer["cost"][row]),
        targets[real],
        np.atleast_1d(answer["guesses"][row])[real],
        np.atleast_1d(answer["costs"][row])[real],
        _tokens(batch, row),
    )


def _tokens(batch: Batch, row: int) -> np.ndarray:
    for prefix in ("", "encoder_"):
        if f"{prefix}token_ids" in batch:
            real = batch[f"{prefix}document_ids"][row] > 0
            return batch[f"{prefix}token_ids"][row][real]
    return np.zeros(0, np.int32)


@dataclass
class CostsByDocument:
    """Accumulates the summed loss of each document in packed records.

    Attributes:
        targets: The targets of the objective; their losses are summed.
        document_ids: Name of the feature with the document of each target; None if a
            record has one document.
    """

    targets: Sequence[Target]
    document_ids: str | None = None
    _costs: list[np.ndarray] = field(default_factory=list)

    def __call__(self, answers: Answers, batch: Batch) -> None:
        if self.document_ids is None:
            total = sum(answers[target.output]["cost"] for target in self.targets)
            self._costs.append(np.asarray(total, np.float64)[:, np.newaxis])
            return
        (target,) = self.targets
        nats = answers[target.output]["costs"].astype(np.float64)
        documents = batch[self.document_ids]
        columns = int(documents.max(initial=0)) + 1
        cells = np.arange(len(documents))[:, np.newaxis] * columns + documents
        sums = np.bincount(cells.ravel(), nats.ravel(), len(documents) * columns)
        self._costs.append(sums.reshape(-1, columns)[:, 1:])

    def select(self, rows: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Returns losses, float64 (P,), by record row and document ordinal (from 1)."""
        widest = max(costs.shape[1] for costs in self._costs)
        padded = [np.pad(c, ((0, 0), (0, widest - c.shape[1]))) for c in self._costs]
        return np.concatenate(padded)[rows, ordinals - 1]
