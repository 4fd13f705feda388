"""Parity of exported classifiers and regression models of texts and pairs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from transbeam.configs.schema.objectives.traits import input_names
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.framing import frame_texts
from transbeam.serving.parity.base.parity_checks import ParityCheck, tokens_row
from transbeam.serving.parity.base.parity_texts import labelled_texts
from transbeam.serving.parity.pooled import PooledParityChecker
from transbeam.serving.runtimes.saved_model import AskTexts, Texts


class TextParityChecker(PooledParityChecker):
    """Checks models that read a text or a pair of texts; see `ParityChecker`.

    Args:
        trained: The Keras model.
        texts: Texts or pairs of texts; latency is measured on the first input.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        names = input_names(trained.config.objective)
        super().__init__(
            trained,
            [
                (dict(zip(names, one, strict=True)), _read(trained, one))
                for one in texts
            ],
        )

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "TextParityChecker":
        """Returns a parity checker for the texts that `labelled_texts` returns."""
        return cls(trained, labelled_texts(trained, run_folder))

    def input_row(self, form: str, ask: AskTexts, given: Texts) -> ParityCheck:
        ids = [one.inputs["token_ids"] for one in self.expected]
        return tokens_row(form, dict(ask("tokenize", given)), ids)


def _read(trained: TrainedRun, texts: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Computes the model's inputs for a text or a pair of texts, in Python."""
    frame = frame_of_run(trained.config, trained.tokenizer.special)
    room = trained.config.model.max_sequence_length - frame.size(len(texts))
    parts = trained.tokenizer.tokenize(texts).to_list()
    while sum(map(len, parts)) > room:
        # The longer text; the second on ties.
        max(reversed(parts), key=len).pop()
    ids = frame_texts(*parts, frame=frame)
    before = frame.starts + len(parts[0]) + 1
    inputs = {
        "token_ids": ids,
        "padding_mask": [1] * len(ids),
        "segment_ids": [int(len(parts) == 2 and i >= before) for i in range(len(ids))],
    }
    return {
        name: np.array(row, np.int32)
        for name, row in inputs.items()
        if name in trained.model.input
    }
