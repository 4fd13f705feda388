"""The input of every part of an analysis: a model, and texts, one in each row."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

# Padded lengths are powers of two from here on, so that a traced function is traced
# for a few shapes only.
_SHORTEST = 16
# Features with one value per token; the others have one per text.
_PER_TOKEN = ("token_ids", "segment_ids", "prefix_mask")


@dataclass(frozen=True)
class TextBatch:
    """Rows of one text each, padded at the end.

    Attributes:
        index: The texts' numbers, int64 (B,).
        inputs: The inputs of the model by name: int32 (B, T), or uint8 images.
    """

    index: np.ndarray
    inputs: dict[str, np.ndarray]


@dataclass(frozen=True)
class AnalyzedTexts:
    """Tokenized texts.

    Attributes:
        name: `validation`, `training`, or the name of the file of the texts.
        rows: The features of each text, by name and without padding: `token_ids`, int32
            (T,), with special tokens as in records, `segment_ids` and `prefix_mask` if
            records have them; the same with the prefixes `encoder_` and `decoder_` in
            an encoder-decoder; `image`; and `label`, of labeled records.
        texts: The texts before tokenization, if they come from a file.
    """

    name: str
    rows: tuple[dict[str, np.ndarray], ...]
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self, model: keras.Model, tokens: int = 4096, longest: int | None = None
    ) -> Iterator[TextBatch]:
        """Yields batches of texts of similar length, the shortest first.

        Args:
            model: The model, whose inputs are made.
            tokens: Largest number of tokens in a batch, with padding; a longer text is
                a batch of its own.
            longest: Largest length of a row of the model; None if there is none.

        Example:
        >>> import keras
        >>> rows = tuple({"token_ids": np.ones(n, "int32")} for n in (3, 20, 2))
        >>> inputs = {
        ...     name: keras.Input((None,), dtype="int32", name=name)
        ...     for name in ("token_ids", "padding_mask")
        ... }
        >>> model = keras.Model(inputs, inputs["token_ids"])
        >>> for batch in AnalyzedTexts("some", rows).batches(model, tokens=32):
        ...     print(batch.index, batch.inputs["padding_mask"].shape)
        [2 0] (2, 16)
        [1] (1, 32)
        """
        lengths = np.array([_longest(row) for row in self.rows])
        order = np.argsort(lengths, kind="stable")
        first = 0
        while first < len(order):
            width = min(_padded(int(lengths[order[first]])), longest or 2**31)
            size = max(1, tokens // width)
            last = int(np.searchsorted(lengths[order], width, side="right"))
            index = order[first : min(first + size, last)]
            yield TextBatch(index, self._inputs(model, index, width))
            first += len(index)

    def _inputs(
        self, model: keras.Model, index: np.ndarray, width: int
    ) -> dict[str, np.ndarray]:
        rows = [self.rows[number] for number in index]
        inputs = {}
        for name in rows[0]:
            if name == "image":
                inputs[name] = np.stack([row[name] for row in rows])
            elif name.endswith(_PER_TOKEN):
                inputs[name] = _pad([row[name] for row in rows], width)
        for name in [name for name in inputs if name.endswith("token_ids")]:
            ones = [np.ones(len(row[name]), np.int32) for row in rows]
            inputs[name.replace("token_ids", "padding_mask")] = _pad(ones, width)
        if "masked_positions" in model.input:
            inputs["masked_positions"] = np.zeros((len(rows), 1), np.int32)
        return {name: inputs[name] for name in model.input}


@dataclass(frozen=True)
class AnalysisContext:
    """The input of every part of an analysis.

    Attributes:
        config: The run.
        model: The model with its head, for one text per row, in float32.
        tokenizer: The run's tokenizer.
        texts: The texts.
        console: Shows progress.
        seed: Seed of all random choices.
        run_folder: The run's folder.
        max_tokens: Largest number of tokens in a batch.
    """

    config: RunConfig
    model: keras.Model
    tokenizer: Tokenizer
    texts: AnalyzedTexts
    console: Console
    seed: int
    run_folder: Path
    max_tokens: int = 4096

    def batches(self) -> Iterator[TextBatch]:
        """Yields batches of the texts; see `AnalyzedTexts.batches`."""
        return self.texts.batches(
            self.model, self.max_tokens, self.config.model.max_sequence_length
        )


def _longest(row: dict[str, np.ndarray]) -> int:
    return max(
        (len(value) for name, value in row.items() if name.endswith("token_ids")),
        default=1,
    )


def _padded(length: int) -> int:
    """Rounds a length up to a power of two.

    Example:
    >>> [_padded(length) for length in (1, 16, 17, 100)]
    [16, 16, 32, 128]
    """
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def _pad(rows: list[np.ndarray], width: int) -> np.ndarray:
    padded = np.zeros((len(rows), width), np.int32)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
