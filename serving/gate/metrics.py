"""What a phone's file costs of what the task is judged by, on validation records."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from configs.objective import (
    ClassificationConfig,
    ImageClassificationConfig,
    MaskedConfig,
    PairClassificationConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from serving.forms import PhoneModel
from serving.gate.rows import Row, at_most, log_softmax
from serving.records import Record, records
from serving.trained import Trained

# Records that each file is asked about, one by one.
JUDGED = 400
# Of the normal distribution: one chance in twenty.
_ONE_SIDED = 1.645
_AT_ONCE = 16
_HIDDEN_EVERY = 7

Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Question:
    """What is asked of a model, and what is right.

    Attributes:
        inputs: Rows (T,), or an image.
        right: As the answer that is judged: the class (), or of each place (N,).
        places: int32 (N,), where answers are judged that are given at each token.
    """

    inputs: dict[str, np.ndarray]
    right: np.ndarray
    places: np.ndarray | None = None


class Metric(Protocol):
    """Knows how good Keras is, and whether a phone's file is as good."""

    @property
    def name(self) -> str:
        """Such as `accuracy`."""
        ...

    @property
    def of_keras(self) -> float:
        """The Keras model's."""
        ...

    def measured(self, model: PhoneModel) -> tuple[float, Callable[[str], Row]]:
        """A file's, and the row that says what is lost, given the row's form."""
        ...


class Accuracy:
    """The share of answers that are right, each by itself.

    A file may lose `export.tolerance.metric_loss`. With few records a single answer is
    more than that, so a loss counts as larger only where it is so beyond chance: by a
    one-sided sign test on the answers that one model has right and the other wrong
    (McNemar, 1947, https://doi.org/10.1007/BF02295996), at 5%.
    """

    name = "accuracy"

    def __init__(
        self,
        trained: Trained,
        signature: str,
        questions: Sequence[Question],
        outputs: tuple[str, ...] = ("logits",),
    ):
        self.signature, self.outputs = signature, outputs
        self.questions = questions
        self.limit = trained.config.export.tolerance.metric_loss
        found = _ask_keras(trained, questions)
        self.keras = np.concatenate(
            [self._hits(*pair) for pair in zip(questions, found, strict=True)]
        )

    @property
    def of_keras(self) -> float:
        return float(self.keras.mean())

    def measured(self, model: PhoneModel) -> tuple[float, Callable[[str], Row]]:
        hits = np.concatenate(
            [self._hits(one, self._ask(model, one)) for one in self.questions]
        )
        lost, won = (self.keras & ~hits).sum(), (hits & ~self.keras).sum()
        loss = float(lost - won) / len(hits)
        chance = _ONE_SIDED * float(np.sqrt(lost + won)) / len(hits)

        def row(form: str) -> Row:
            check = f"accuracy lost, of {self.of_keras:.4f} on {len(hits)} answers"
            return at_most(form, check, loss, self.limit + chance)

        return float(hits.mean()), row

    def _ask(self, model: PhoneModel, question: Question) -> Outputs:
        return model.ask(self.signature, **question.inputs)

    def _hits(self, question: Question, outputs: Outputs) -> np.ndarray:
        """Bool (N,): which answers are right."""
        answers = [outputs[name] for name in self.outputs]
        if question.places is not None:
            answers = [answer[question.places] for answer in answers]
        chosen = np.stack([np.argmax(a, axis=-1) for a in answers], axis=-1)
        right = question.right.reshape(-1, len(answers))
        return (chosen.reshape(right.shape) == right).all(axis=-1)


class Perplexity:
    """e to the mean of what a masked token's right piece is surprising by, in nats."""

    name = "perplexity"

    def __init__(self, trained: Trained, questions: Sequence[Question]):
        self.questions = questions
        self.limit = trained.config.export.tolerance.perplexity_loss
        found = _ask_keras(trained, questions)
        self.of_keras = self._perplexity(found)

    def measured(self, model: PhoneModel) -> tuple[float, Callable[[str], Row]]:
        found = self._perplexity(
            model.ask("fill_mask", **one.inputs) for one in self.questions
        )

        def row(form: str) -> Row:
            check = f"perplexity, share above Keras's {self.of_keras:.2f}"
            return at_most(form, check, found / self.of_keras - 1, self.limit)

        return found, row

    def _perplexity(self, found: Iterable[Outputs]) -> float:
        surprise = []
        for one, outputs in zip(self.questions, found, strict=True):
            known = log_softmax(outputs["logits"][: len(one.right)])
            surprise.append(-known[np.arange(len(one.right)), one.right])
        return float(np.exp(np.mean(np.concatenate(surprise))))


def metric_of(trained: Trained, run_folder: Path) -> Metric | None:
    """What a run's task is judged by; None if its records say nothing of that."""
    questions = list(islice(_questions(trained, run_folder), JUDGED))
    if not questions:
        return None
    match trained.config.objective:
        case MaskedConfig():
            return Perplexity(trained, questions)
        case ClassificationConfig() | PairClassificationConfig():
            return Accuracy(trained, "classify_ids", questions)
        case ImageClassificationConfig():
            return Accuracy(trained, "classify_pixels", questions)
        case TokenClassificationConfig():
            return Accuracy(trained, "tag_ids", questions)
        case SpanQAConfig():
            names = ("start_logits", "end_logits")
            return Accuracy(trained, "read_ids", questions, names)
        case _:
            return None


def _questions(trained: Trained, run_folder: Path) -> Iterable[Question]:
    make = _maker(trained)
    if make is None:
        return
    for record in records(run_folder, "validation"):
        yield from make(record)


def _maker(trained: Trained) -> Callable[[Record], Iterable[Question]] | None:
    config = trained.config
    match config.objective:
        case ImageClassificationConfig(image_size=size, channels=channels):
            shape = (size, size, channels)
            return lambda record: [
                Question({"image": record["image"].reshape(shape)}, record["label"])
            ]
        case ClassificationConfig() | PairClassificationConfig():
            return lambda record: [Question(_alone(trained, record), record["label"])]
        case SpanQAConfig():
            return lambda record: [
                Question(
                    _alone(trained, record),
                    np.concatenate([record["start_position"], record["end_position"]]),
                )
            ]
        case TokenClassificationConfig():
            return lambda record: _tagged(trained, record)
        case MaskedConfig():
            return lambda record: _hidden(trained, record)
        case _:
            return None


def _alone(trained: Trained, record: Record) -> dict[str, np.ndarray]:
    """What the model reads of a record of one document."""
    real = record["document_ids"] > 0
    inputs = {**record, "padding_mask": real.astype(np.int32)}
    names = [name for name in inputs if name in trained.model.input]
    return {name: inputs[name][real] for name in names if name != "masked_positions"}


def _tagged(trained: Trained, record: Record) -> Iterable[Question]:
    for inputs, of_it in _split(trained, record):
        places = np.flatnonzero(record["label_weights"][of_it])
        if len(places):
            yield Question(inputs, record["label_ids"][of_it][places], places)


def _hidden(trained: Trained, record: Record) -> Iterable[Question]:
    """Documents with hidden tokens: the record's own, or else every seventh."""
    room, mask = trained.config.export.tflite_masks, trained.tokenizer.special.mask
    right = record["token_ids"].copy()
    asked = np.zeros(len(right), bool)
    if "masked_positions" in record:
        used = record["masked_weights"] > 0
        positions = record["masked_positions"][used]
        right[positions], asked[positions] = record["masked_ids"][used], True
    else:
        asked[_HIDDEN_EVERY // 2 :: _HIDDEN_EVERY] = True
        asked &= np.isin(right, trained.tokenizer.ordinary_ids)
    for inputs, of_it in _split(trained, record):
        positions = np.flatnonzero(asked[of_it])[:room].astype(np.int32)
        if len(positions):
            if "masked_positions" not in record:
                inputs["token_ids"] = inputs["token_ids"].copy()
                inputs["token_ids"][positions] = mask
            inputs["masked_positions"] = positions
            yield Question(inputs, right[of_it][positions])


def _split(
    trained: Trained, record: Record
) -> Iterable[tuple[dict[str, np.ndarray], np.ndarray]]:
    """The documents of a record, and which of its tokens are theirs."""
    document_ids = record["document_ids"]
    for document in range(1, int(document_ids.max()) + 1):
        of_it = np.flatnonzero(document_ids == document)
        part = {
            name: record[name][of_it]
            for name in ("token_ids", "document_ids", "segment_ids")
            if name in record
        }
        yield _alone(trained, part), of_it


def _ask_keras(trained: Trained, questions: Sequence[Question]) -> list[Outputs]:
    """The Keras model's outputs for each, some rows at a time, filled up with zeros."""
    found: list[Outputs] = []
    for start in range(0, len(questions), _AT_ONCE):
        some = questions[start : start + _AT_ONCE]
        batch = {
            name: _stacked([one.inputs[name] for one in some])
            for name in some[0].inputs
        }
        outputs: Any = trained.model(batch, training=False)
        arrays = {name: np.asarray(value) for name, value in outputs.items()}
        found += [
            {name: array[row] for name, array in arrays.items()}
            for row in range(len(some))
        ]
    return found


def _stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(map(len, rows))
    ends = [[(0, longest - len(row)), *[(0, 0)] * (row.ndim - 1)] for row in rows]
    return np.stack([np.pad(row, end) for row, end in zip(rows, ends, strict=True)])
