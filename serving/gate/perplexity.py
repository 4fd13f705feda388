"""How surprised a phone's file is by what validation records say."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from serving.forms import PhoneModel
from serving.gate.labelled import Outputs, Question, ask_keras
from serving.gate.rows import Row, at_most, log_softmax
from serving.phone.writing import PhoneWriter
from serving.records import documents, records
from serving.trained import Trained

# Of models that write, which read a token at a time.
_TOKENS = 1000
_DOCUMENTS = 100


class Perplexity:
    """e to the mean of what the right token is surprising by, in nats.

    Args:
        trained: `export.tolerance.perplexity_loss` is the share that a file may add.
        of_keras: The Keras model's surprise at each token.
        ask: The surprise of a phone's file at the same ones.
    """

    name = "perplexity"

    def __init__(
        self,
        trained: Trained,
        of_keras: Iterable[np.ndarray],
        ask: Callable[[PhoneModel], Iterable[np.ndarray]],
    ):
        self.limit = trained.config.export.tolerance.perplexity_loss
        self.of_keras = _mean(of_keras)
        self.ask = ask

    def measured(self, model: PhoneModel) -> tuple[float, Callable[[str], Row]]:
        found = _mean(self.ask(model))

        def row(form: str) -> Row:
            check = f"perplexity, share above Keras's {self.of_keras:.2f}"
            return at_most(form, check, found / self.of_keras - 1, self.limit)

        return found, row


def of_masks(trained: Trained, questions: Sequence[Question]) -> Perplexity:
    """That of a masked language model, at its masks."""

    def surprise(found: Iterable[Outputs]) -> Iterator[np.ndarray]:
        for one, outputs in zip(questions, found, strict=True):
            yield _surprise(outputs["logits"][: len(one.right)], one.right)

    def ask(model: PhoneModel) -> Iterable[np.ndarray]:
        return surprise(model.ask("fill_mask", **one.inputs) for one in questions)

    return Perplexity(trained, surprise(ask_keras(trained, questions)), ask)


def of_writing(trained: Trained, run_folder: Path) -> Perplexity | None:
    """That of a model that writes, at each token after the first of what it reads."""
    pairs = list(_bounded(trained, run_folder))
    if not pairs:
        return None
    names = ("encoder_token_ids", "decoder_token_ids")

    def of_keras() -> Iterator[np.ndarray]:
        for source, ids in pairs:
            given = {"token_ids": ids[:-1]}
            if source is not None:
                given = dict(zip(names, (source, ids[:-1]), strict=True))
            batch = {name: row[np.newaxis] for name, row in given.items()}
            for name in list(batch):
                mask = name.replace("token_ids", "padding_mask")
                batch[mask] = np.ones_like(batch[name])
            outputs: Any = trained.model(batch, training=False)
            yield _surprise(np.asarray(outputs["logits"])[0], ids[1:])

    def ask(model: PhoneModel) -> Iterator[np.ndarray]:
        writer = PhoneWriter(model)
        for source, ids in pairs:
            logits = [writer.begin(ids[:1], source)]
            logits += [writer.read(int(token)) for token in ids[1:-1]]
            yield _surprise(np.array(logits), ids[1:])

    return Perplexity(trained, of_keras(), ask)


def _bounded(
    trained: Trained, run_folder: Path
) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
    """Sources, of models that have them, and texts: as many as may be read."""
    config, left = trained.config, _TOKENS
    written = "" if config.model.kind == "decoder" else "decoder_"
    if f"{written}token_ids" not in next(records(run_folder, "validation"), {}):
        return  # no record, or none of what is to be written
    if config.model.kind == "decoder":
        pairs = ((None, ids) for ids, _ in documents(run_folder))
    else:
        sides = (documents(run_folder, side) for side in ("encoder_", "decoder_"))
        pairs = ((source, ids) for (source, _), (ids, _) in zip(*sides, strict=True))
    slots = config.export.tflite_cache or config.model.max_sequence_length
    for source, text in islice(pairs, _DOCUMENTS):
        ids = text[: min(slots, left) + 1]
        if len(ids) < 2:
            continue
        left -= len(ids) - 1
        yield source, ids
        if left <= 0:
            return


def _surprise(logits: np.ndarray, right: np.ndarray) -> np.ndarray:
    """float64 (N,), in nats."""
    return -log_softmax(logits)[np.arange(len(right)), right]


def _mean(surprise: Iterable[np.ndarray]) -> float:
    return float(np.exp(np.mean(np.concatenate(list(surprise)))))
