"""Perplexity of TFLite files on validation records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
)
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.run_records import documents, records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    at_most,
    log_softmax,
)
from transbeam.serving.parity.metrics.validation_examples import (
    Outputs,
    ValidationExample,
    run_keras,
)
from transbeam.serving.runtimes.tflite_generator import PhoneWriter

# Limits for generative models, which read one token per call.
_TOKENS = 1000
_DOCUMENTS = 100


class PerplexityMetric:
    """The exponential of the mean cross-entropy of the correct tokens.

    Args:
        trained: `export.tolerance.perplexity_loss` is the allowed relative increase.
        of_keras: The Keras model's cross-entropy at each token, in nats.
        ask: Computes a TFLite file's cross-entropy at the tokens used for the Keras
            model.
    """

    name = "perplexity"

    def __init__(
        self,
        trained: TrainedRun,
        of_keras: Iterable[np.ndarray],
        ask: Callable[[TFLiteRunner], Iterable[np.ndarray]],
    ):
        self.limit = trained.config.export.tolerance.perplexity_loss
        self.of_keras = _mean(of_keras)
        self.ask = ask

    def measured(
        self, model: TFLiteRunner
    ) -> tuple[float, Callable[[str], ParityCheck]]:
        found = _mean(self.ask(model))

        def row(form: str) -> ParityCheck:
            check = f"perplexity, share above Keras's {self.of_keras:.2f}"
            return at_most(form, check, found / self.of_keras - 1, self.limit)

        return found, row


def of_masks(
    trained: TrainedRun, questions: Sequence[ValidationExample]
) -> PerplexityMetric:
    """Returns the perplexity metric of a masked language model, at masked tokens."""

    def surprise(found: Iterable[Outputs]) -> Iterator[np.ndarray]:
        for one, outputs in zip(questions, found, strict=True):
            yield _surprise(outputs["logits"][: len(one.right)], one.right)

    def ask(model: TFLiteRunner) -> Iterable[np.ndarray]:
        return surprise(model.ask("fill_mask", **one.inputs) for one in questions)

    return PerplexityMetric(trained, surprise(run_keras(trained, questions)), ask)


def of_writing(trained: TrainedRun, run_folder: Path) -> PerplexityMetric | None:
    """Returns the perplexity metric of a generative model, over the scored tokens.

    The tokens that are not scored are the first token of a text, or the prefix of a
    prefix language model.
    """
    texts = list(_bounded(trained, run_folder))
    if not texts:
        return None

    def of_keras() -> Iterator[np.ndarray]:
        for text in texts:
            outputs: Any = trained.model(text.batch(trained), training=False)
            logits = np.asarray(outputs["logits"])[0]
            yield _surprise(logits[text.given - 1 :], text.written)

    def ask(model: TFLiteRunner) -> Iterator[np.ndarray]:
        writer = PhoneWriter(model)
        for text in texts:
            logits = [writer.begin(text.ids[: text.given], text.source)]
            logits += [writer.read(int(token)) for token in text.written[:-1]]
            yield _surprise(np.array(logits), text.written)

    return PerplexityMetric(trained, of_keras(), ask)


class _Text(NamedTuple):
    """The token ids of a text as inputs of a generative model.

    Attributes:
        ids: int32 (N,).
        given: The number of tokens that are not scored, at least one.
        source: The encoder's input of an encoder-decoder model.
    """

    ids: np.ndarray
    given: int = 1
    source: np.ndarray | None = None

    @property
    def written(self) -> np.ndarray:
        """The tokens that are scored."""
        return self.ids[self.given :]

    def batch(self, trained: TrainedRun) -> dict[str, np.ndarray]:
        """Returns all tokens but the last as a batch of one row for the Keras model."""
        row, source = self.ids[:-1], self.source
        sides = {"": row}
        if source is not None:
            sides = {"encoder_": source, "decoder_": row}
        batch = {}
        for side, ids in sides.items():
            batch[f"{side}token_ids"] = ids[np.newaxis]
            batch[f"{side}padding_mask"] = np.ones_like(ids)[np.newaxis]
        if isinstance(trained.config.objective, PrefixConfig):
            prefix = np.arange(len(row)) < self.given
            batch["prefix_mask"] = prefix[np.newaxis].astype(np.int32)
        return batch


def _bounded(trained: TrainedRun, run_folder: Path) -> Iterator[_Text]:
    """Yields texts cut to the cache size, up to a maximum total number of tokens."""
    config, left = trained.config, _TOKENS
    slots = config.export.tflite_cache or config.model.max_sequence_length
    for text in islice(_texts(trained, run_folder), _DOCUMENTS):
        text = text._replace(ids=text.ids[: min(slots, text.given + left - 1) + 1])
        if len(text.written):
            left -= len(text.written)
            yield text
        if left <= 0:
            return


def _texts(trained: TrainedRun, run_folder: Path) -> Iterator[_Text]:
    """Yields the documents of the records; none if the records lack decoder tokens."""
    config = trained.config
    written = "" if config.model.kind == "decoder" else "decoder_"
    if f"{written}token_ids" not in next(records(run_folder, "validation"), {}):
        return
    if isinstance(config.objective, PrefixConfig):
        masks = documents(run_folder, feature="prefix_mask")
        for (ids, _), (mask, _) in zip(documents(run_folder), masks, strict=True):
            yield _Text(ids, max(int(mask.sum()), 1))
    elif isinstance(config.objective, CompletionConfig | DialogueConfig):
        weights = documents(run_folder, feature="target_weights")
        for (ids, _), (weight, _) in zip(documents(run_folder), weights, strict=True):
            yield _Text(ids, int(np.argmax(weight > 0)) + 1)
    elif config.model.kind == "decoder":
        for ids, _ in documents(run_folder):
            yield _Text(ids)
    else:
        sides = (documents(run_folder, side) for side in ("encoder_", "decoder_"))
        for (source, _), (ids, _) in zip(*sides, strict=True):
            yield _Text(ids, source=source)


def _surprise(logits: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the cross-entropy of each token in nats, float64 (N,)."""
    return -log_softmax(logits)[np.arange(len(right)), right]


def _mean(surprise: Iterable[np.ndarray]) -> float:
    return float(np.exp(np.mean(np.concatenate(list(surprise)))))
