"""Predictions of a trained model, or of a TFLite file exported of it, for one text.

Texts become ids by the signatures of the model; ids go to Keras, or to the signature
of the same name in the file. So both read the same rows.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import assert_never

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    EmbeddingObjective,
    FillsObjective,
    ImageObjective,
    LabelSetObjective,
    NumberObjective,
    SpanObjective,
    TextObjective,
    WordsObjective,
)
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.base.text_inputs import TextInputs
from transbeam.serving.signatures.masked import MaskedTask
from transbeam.serving.signatures.pooled import PooledTask
from transbeam.serving.signatures.span_qa import SpanQATask
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.signatures.words import WordsTask
from transbeam.serving.studio.answers import Answer, Outcomes, Prediction, softmax
from transbeam.serving.studio.next_tokens import (
    KerasNextTokens,
    NextTokens,
    TFLiteNextTokens,
)
from transbeam.serving.studio.span_candidates import answer_spans
from transbeam.serving.studio.studio_error import StudioError
from transbeam.serving.studio.token_answers import answer_tokens
from transbeam.serving.studio.token_rows import without_padding
from transbeam.serving.text_ops.mask_tokens import answer_pieces
from transbeam.serving.text_ops.word_split import split_words

# Rows of ids (T,) by name to outputs without the batch axis.
AskIds = Callable[[str, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


class AnsweringModel:
    """The predictions of a trained model.

    Args:
        trained: The model, in Keras.
    """

    def __init__(self, trained: TrainedRun):
        self.task = make_signature_task(trained)
        # Those of sentence pairs are answered as those of a classifier.
        inner = self.task.inputs if isinstance(self.task, PooledTask) else self.task
        self.trained: TrainedRun = getattr(inner, "trained", trained)
        self.tokenizer = trained.tokenizer

    def answer(
        self, texts: Mapping[str, str], tflite: TFLiteRunner | None = None
    ) -> Answer:
        """Computes the predictions for a text.

        Args:
            texts: A text for each of the run's inputs.
            tflite: The exported file that predicts; None for Keras.

        Raises:
            StudioError: The model has no predictions for a text, or the text is too
                long for the file.
        """
        objective = self.trained.config.objective
        ask = self._keras if tflite is None else _asking(tflite)
        if isinstance(objective, ImageObjective):
            raise StudioError("the model reads images, and not texts")
        if isinstance(objective, EmbeddingObjective):
            raise StudioError("the model embeds texts, and predicts nothing of them")
        if isinstance(objective, FillsObjective):
            most = tflite and tflite.size("fill_mask", "masked_positions")
            return self._fills(texts["text"], ask, most)
        if isinstance(objective, ChoiceObjective | LabelSetObjective | NumberObjective):
            return self._pooled(texts, ask)
        if isinstance(objective, WordsObjective):
            return self._tags(texts["text"], ask)
        if isinstance(objective, SpanObjective):
            assert isinstance(self.task, SpanQATask)
            return answer_spans(self.task, texts, ask)
        if isinstance(objective, TextObjective):
            model: NextTokens = KerasNextTokens(self.trained)
            if tflite is not None:
                model = TFLiteNextTokens(tflite)
            return answer_tokens(
                self.trained, self.task, texts, model, self._vocabulary
            )
        if isinstance(objective, SentencePairsConfig):
            raise AssertionError("its task answers as that of a classifier")
        assert_never(objective)

    @cached_property
    def _endpoints(self) -> Mapping[str, Endpoint]:
        return self.task.endpoints()

    @cached_property
    def _vocabulary(self) -> Outcomes:
        pieces = answer_pieces(self.tokenizer)
        return Outcomes.from_shown([p.decode("utf-8", "replace") for p in pieces])

    def _keras(
        self, signature: str, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        endpoint = self._endpoints[signature]
        rows = [tf.constant(inputs[str(spec.name)][None]) for spec in endpoint.inputs]
        outputs = endpoint.function(*rows)
        return {name: np.asarray(values)[0] for name, values in outputs.items()}

    def _fills(self, text: str, ask: AskIds, most: int | None) -> Answer:
        """Predicts the token of each mask."""
        if not isinstance(self.task, MaskedTask):
            raise StudioError("its head was not trained: it fills no masks")
        longest = self.task.max_length
        read, _ = self.task.read_for_attention(tf.constant([text]), longest=longest)
        row = {name: ids[0] for name, ids in without_padding(read).items()}
        is_mask = row["token_ids"] == self.tokenizer.special.mask
        positions = np.flatnonzero(is_mask).astype(np.int32)
        found = []
        # A file has a fixed number of masks.
        for start in range(0, len(positions), most or max(len(positions), 1)):
            some = positions[start : start + (most or len(positions))]
            outputs = ask("fill_mask", {**row, "masked_positions": some})
            found += list(softmax(outputs["logits"])[: len(some)])
        predictions = [Prediction(n, "", shares) for n, shares in enumerate(found)]
        return Answer("fills", self._vocabulary, predictions)

    def _pooled(self, texts: Mapping[str, str], ask: AskIds) -> Answer:
        """Predicts one class, several labels or a number."""
        task, objective = self.task, self.trained.config.objective
        assert isinstance(task, PooledTask)
        assert isinstance(task.inputs, TextInputs)
        names = [str(spec.name) for spec in task.inputs.specs]
        read, _ = task.inputs.read_for_attention(
            *(tf.constant([texts[name]]) for name in names), longest=task.max_length
        )
        rows = {name: ids[0] for name, ids in without_padding(read).items()}
        outputs = ask(task.by_ids, rows)
        if isinstance(objective, NumberObjective):
            value = np.reshape(outputs["score"], 1).astype(np.float64)
            number = Outcomes(("score",), ("score",))
            return Answer("number", number, [Prediction(0, "", value)])
        assert isinstance(objective, ChoiceObjective | LabelSetObjective)
        labels = Outcomes(objective.labels, objective.labels)
        logits = outputs["logits"].astype(np.float64)
        if isinstance(objective, LabelSetObjective):
            shares = 1 / (1 + np.exp(-logits))
            return Answer("labels", labels, [Prediction(0, "", shares)])
        return Answer("classes", labels, [Prediction(0, "", softmax(logits))])

    def _tags(self, text: str, ask: AskIds) -> Answer:
        """Predicts the tag of each word."""
        task, objective = self.task, self.trained.config.objective
        assert isinstance(task, WordsTask)
        assert isinstance(objective, WordsObjective)
        words = split_words(tf.constant([text])).texts
        tags = Outcomes(objective.labels, objective.labels)
        if not words.flat_values.shape[0]:
            return Answer("tags", tags, [])
        packed = task.pack(words)
        shares: list[np.ndarray] = []
        for row in range(int(packed.tokens.nrows())):
            encoded = task.encoder.text(packed.tokens[row : row + 1])
            padded = {
                "token_ids": encoded.token_ids,
                "padding_mask": encoded.padding_mask,
            }
            inputs = {name: ids[0] for name, ids in without_padding(padded).items()}
            logits = ask(task.by_ids, inputs)["logits"]
            at = packed.positions.numpy()[packed.rows.numpy() == row]
            shares += list(softmax(logits[at]))
        named = [word.decode("utf-8", "replace") for word in words[0].numpy()]
        predictions = [
            Prediction(number, word, found)
            for number, (word, found) in enumerate(zip(named, shares, strict=True))
        ]
        return Answer("tags", tags, predictions)


def _asking(tflite: TFLiteRunner) -> AskIds:
    def ask(
        signature: str, inputs: Mapping[str, np.ndarray]
    ) -> Mapping[str, np.ndarray]:
        return tflite.ask(signature, **inputs)

    return ask
