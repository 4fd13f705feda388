"""Parity of exported text embeddings with Keras."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.base.text_frame import embedding_frame
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    at_most,
    largest,
    phone_row,
    tokens_row,
)
from transbeam.serving.parity.base.parity_texts import labelled_texts, row_inputs
from transbeam.serving.runtimes.saved_model import AskTexts
from transbeam.serving.signatures.embedding import find_body, find_pooled


class KerasEmbedder:
    """Computes reference embeddings with Keras, each text separately, pooling in NumPy.

    A model that was trained for embeddings computes them whole, as in its training.

    Args:
        trained: The Keras model.
    """

    def __init__(self, trained: TrainedRun):
        self.tokenizer, self.body = trained.tokenizer, find_body(trained.model)
        self.embedder = None
        if isinstance(trained.config.objective, EmbeddingObjective):
            is_unit = trained.config.export.normalize_embeddings
            self.embedder = trained.model if is_unit else find_pooled(trained.model)
        export, longest = trained.config.export, trained.config.model
        self.pooling, self.normalize = (
            export.embedding_pooling,
            export.normalize_embeddings,
        )
        longest = longest.max_sequence_length
        self.frame = embedding_frame(trained.config, self.tokenizer.special)
        longest = min(export.embedding_length or longest, longest)
        self.room = longest - self.frame.size()

    def ids(self, text: str) -> np.ndarray:
        """Returns ids with special tokens, int32 (T,), cut to the maximum length."""
        content = self.tokenizer.tokenize([text]).numpy()[0][: self.room]
        return frame_texts(content, frame=self.frame)

    def vector(self, ids: np.ndarray) -> np.ndarray:
        """Computes the embedding of one text's ids, float32 (D,)."""
        row = {"token_ids": ids[np.newaxis], "padding_mask": np.ones_like(ids)[None]}
        if self.embedder is not None:
            (vector,) = self.embedder(row, training=False).values()
            return np.asarray(vector)[0]
        vectors = np.asarray(self.body(row, training=False)["sequence_output"])[0]
        if self.pooling == "mean":
            vector = vectors.mean(axis=0)
        elif self.pooling == "max":
            vector = vectors.max(axis=0)
        else:
            vector = vectors[0 if self.pooling == "first" else -1]
        return vector / np.linalg.norm(vector) if self.normalize else vector


class EmbeddingParityChecker:
    """Checks embeddings; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: At least one text; latency is measured on the first text.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[str]):
        self.tolerance = trained.config.export.tolerance
        self.texts = list(texts)
        keras = KerasEmbedder(trained)
        self.ids = [keras.ids(text) for text in self.texts]
        self.vectors = [keras.vector(ids) for ids in self.ids]

    @classmethod
    def from_run(
        cls, trained: TrainedRun, run_folder: Path
    ) -> "EmbeddingParityChecker":
        """Returns a parity checker for the texts that `labelled_texts` returns."""
        return cls(trained, [text for text, *_ in labelled_texts(trained, run_folder)])

    @property
    def size(self) -> int:
        return len(self.texts)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        texts, limit = {"text": self.texts}, self.tolerance.saved_model
        rows = [tokens_row(form, dict(ask("tokenize", texts)), self.ids)]
        for signature in ("serving_default", "embed"):
            off = largest(ask(signature, texts)["embedding"] - self.vectors)
            what = f"{signature}, vector entry, largest difference"
            rows.append(at_most(form, what, off, limit))
        return rows

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        found = [self._asked(model, ids) for ids in self.ids]
        off = np.stack(found) - self.vectors
        return [phone_row(form, "vector entry", off, variant, self.tolerance)]

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", {"text": self.texts[:1]})

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._asked(model, self.ids[0])

    def _asked(self, model: TFLiteRunner, ids: np.ndarray) -> np.ndarray:
        return model.ask("embed", **row_inputs(ids))["embedding"]
