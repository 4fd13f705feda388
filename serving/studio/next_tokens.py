"""Next tokens of generative models: predictions along a text, and a continuation.

Keras reads a whole row at once; a TFLite file reads it token by token, as on a phone.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.runtimes.tflite_generator import PhoneWriter
from transbeam.serving.studio.studio_error import StudioError

Ids = Sequence[int]


class NextTokens(ABC):
    """A generative model that is asked for logits of next tokens."""

    @abstractmethod
    def along(self, row: Ids, source: Ids | None, most: int) -> np.ndarray:
        """Computes the logits after each of the last tokens of a row.

        Args:
            row: The tokens of the decoder; at least one.
            source: The tokens of the encoder, if there is one.
            most: The largest number of tokens.

        Returns:
            float32 `(N, V)`, of the last `N` tokens, at most `most`.
        """

    @abstractmethod
    def write(
        self, row: Ids, source: Ids | None, most: int, ends: Sequence[int]
    ) -> list[int]:
        """Continues a row with the most probable tokens.

        Args:
            row: As in `along`.
            source: As in `along`.
            most: The largest number of new tokens.
            ends: Tokens at which the text ends.

        Returns:
            The new tokens, with the end token, if any.
        """


class KerasNextTokens(NextTokens):
    """A trained model in Keras.

    Args:
        trained: The model.
    """

    def __init__(self, trained: TrainedRun):
        self._model = trained.model

    def along(self, row: Ids, source: Ids | None, most: int) -> np.ndarray:
        return self._logits(row, len(row), source)[-most:]

    def write(
        self, row: Ids, source: Ids | None, most: int, ends: Sequence[int]
    ) -> list[int]:
        written: list[int] = []
        for _ in range(most):
            logits = self._logits([*row, *written], len(row), source)
            written.append(int(logits[-1].argmax()))
            if written[-1] in ends:
                break
        return written

    def _logits(self, row: Ids, given: int, source: Ids | None) -> np.ndarray:
        """Computes logits (T, V) for a row that begins with `given` tokens."""
        prefix = np.arange(len(row)) < given
        if source is None:
            inputs = {**_inputs("", row), "prefix_mask": prefix[None].astype(np.int32)}
        else:
            inputs = {**_inputs("encoder_", source), **_inputs("decoder_", row)}
        known: Mapping[str, Any] = self._model.input
        outputs: Any = self._model(
            {name: inputs[name] for name in known}, training=False
        )
        return np.asarray(outputs["logits"])[0]


class TFLiteNextTokens(NextTokens):
    """An exported TFLite file.

    Args:
        model: The file, loaded in the interpreter.
    """

    def __init__(self, model: TFLiteRunner):
        self._writer = PhoneWriter(model)

    def along(self, row: Ids, source: Ids | None, most: int) -> np.ndarray:
        self._require_room(row)
        if self._writer.prefixes:  # it reads a prompt at once
            return self._writer.begin(row, source)[None]
        found = [self._writer.begin(row[:1], source)]
        for token in row[1:]:
            found.append(self._writer.read(token))
            del found[:-most]
        return np.stack(found)

    def write(
        self, row: Ids, source: Ids | None, most: int, ends: Sequence[int]
    ) -> list[int]:
        self._require_room(row)
        written = self._writer.write(row, most, source=source, stop_token_ids=ends)
        return written.token_ids.tolist()

    def _require_room(self, row: Ids) -> None:
        if len(row) > self._writer.longest_prompt:
            raise StudioError(
                f"the text has {len(row):,} tokens, and the TFLite file reads at most "
                f"{self._writer.longest_prompt:,}; shorten the text, or export with a "
                "larger export.tflite_cache"
            )


def _inputs(side: str, row: Ids) -> dict[str, np.ndarray]:
    """Returns a row of tokens and its padding mask, as a batch of one."""
    ids = np.array([row], np.int32)
    return {f"{side}token_ids": ids, f"{side}padding_mask": np.ones_like(ids)}
