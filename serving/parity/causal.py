"""Parity of exported causal language models with Keras."""

from collections.abc import Sequence

from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most, largest
from transbeam.serving.parity.embedding import KerasEmbedder
from transbeam.serving.parity.generation import GenerationParityChecker
from transbeam.serving.runtimes.saved_model import AskTexts


class CausalParityChecker(GenerationParityChecker):
    """Checks generated texts, scores and text embeddings; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: Tuples of one input text; latency is measured on the first text.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        super().__init__(trained, texts)
        embedder = KerasEmbedder(trained)
        self.vectors = [
            embedder.vector(embedder.ids(text))
            for text in (one.texts[0] for one in self.expected)
        ]

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        found = ask("embed", self._columns(self.expected))["embedding"]
        what, limit = "vector entry, largest difference", self.tolerance.saved_model
        off = largest(found - self.vectors)
        return [
            *super().saved_model_rows(form, ask),
            at_most(form, what, off, limit),
        ]
