"""What is kept of the answers to each batch: where a model is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from transbeam.trainer.metrics.classification import confusion
from transbeam.trainer.objectives.objective_metrics import Answers, Batch
from transbeam.trainer.objectives.targets import Target


@dataclass
class Confusions:
    """How often each class was taken for each.

    Attributes:
        ask: What is asked.
        labels: The names of the classes.
        table: int64 (C, C), targets in rows and guesses in columns.
    """

    ask: Target
    labels: tuple[str, ...]
    table: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.table = np.zeros((len(self.labels),) * 2, np.int64)

    def __call__(self, answers: Answers, batch: Batch) -> None:
        weights = None if self.ask.weights is None else batch[self.ask.weights]
        guesses = answers[self.ask.output]["guesses"]
        self.table += confusion(guesses, batch[self.ask.targets], self.labels, weights)


@dataclass(frozen=True)
class EvaluatedRecord:
    """A record, what is asked of it, and what a model says.

    Attributes:
        number: Its row, counted over all batches.
        cost: Of its targets together: nats, of numbers squares.
        targets: (n,). The real targets of what is asked first.
        guesses: (n,). What the model takes them for.
        costs: float (n,). What each of them costs.
        tokens: int (T,). What the model reads, without padding; none of an image.
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
    """The records that cost most, and of these a given number.

    Attributes:
        ask: What is asked.
        most: How many to keep.
        wrong_only: Whether a record whose first guesses are all right is passed over.
        per_target: Whether the mean over a record's targets counts, and not their sum.
        rows: Those kept, the costliest first.
    """

    ask: Target
    most: int
    wrong_only: bool
    per_target: bool = False
    rows: list[EvaluatedRecord] = field(default_factory=list)
    _seen: int = 0

    def __call__(self, answers: Answers, batch: Batch) -> None:
        answer = answers[self.ask.output]
        cost, count = answer["cost"], answer["count"]
        rank = cost / np.maximum(count, 1) if self.per_target else cost
        counts = (answer["correct"] < count) if self.wrong_only else count > 0
        order = np.argsort(-rank, kind="stable")
        chosen = order[counts[order]][: self.most]
        self.rows += [
            row_of(self.ask, self._seen + place, place, answers, batch)
            for place in chosen.tolist()
        ]
        key = "cost_per_target" if self.per_target else "cost"
        self.rows.sort(key=lambda row: -getattr(row, key))
        del self.rows[self.most :]
        self._seen += len(cost)


def row_of(
    ask: Target, number: int, place: int, answers: Answers, batch: Batch
) -> EvaluatedRecord:
    """A record of a batch with what is asked of it and what the model says.

    Args:
        ask: What is asked.
        number: Its row, counted over all batches.
        place: Its row in the batch.
        answers: To the batch.
        batch: Its features.
    """
    answer = answers[ask.output]
    targets = np.atleast_1d(batch[ask.targets][place])
    real = (
        np.ones(targets.shape, bool)
        if ask.weights is None
        else batch[ask.weights][place] > 0
    )
    return EvaluatedRecord(
        number,
        float(answer["cost"][place]),
        targets[real],
        np.atleast_1d(answer["guesses"][place])[real],
        np.atleast_1d(answer["costs"][place])[real],
        _tokens(batch, place),
    )


def _tokens(batch: Batch, place: int) -> np.ndarray:
    for prefix in ("", "encoder_"):
        if f"{prefix}token_ids" in batch:
            real = batch[f"{prefix}document_ids"][place] > 0
            return batch[f"{prefix}token_ids"][place][real]
    return np.zeros(0, np.int32)


@dataclass
class CostsByDocument:
    """What the targets of each document of a record cost.

    Attributes:
        asks: What is asked; costs are added up.
        document_ids: The feature that says which document a target belongs to; None
            where a record has one document.
    """

    asks: Sequence[Target]
    document_ids: str | None = None
    _costs: list[np.ndarray] = field(default_factory=list)

    def __call__(self, answers: Answers, batch: Batch) -> None:
        if self.document_ids is None:
            total = sum(answers[ask.output]["cost"] for ask in self.asks)
            self._costs.append(np.asarray(total, np.float64)[:, np.newaxis])
            return
        (ask,) = self.asks
        nats = answers[ask.output]["costs"].astype(np.float64)
        documents = batch[self.document_ids]
        columns = int(documents.max(initial=0)) + 1
        cells = np.arange(len(documents))[:, np.newaxis] * columns + documents
        sums = np.bincount(cells.ravel(), nats.ravel(), len(documents) * columns)
        self._costs.append(sums.reshape(-1, columns)[:, 1:])

    def select(self, rows: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Nats, float64 (P,), of documents by row and place in it, counted from 1."""
        widest = max(costs.shape[1] for costs in self._costs)
        padded = [np.pad(c, ((0, 0), (0, widest - c.shape[1]))) for c in self._costs]
        return np.concatenate(padded)[rows, ordinals - 1]
