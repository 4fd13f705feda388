"""Reads the texts of an analysis: from a run's records, or from a file of lines."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    Seq2SeqModelConfig,
)
from transbeam.pipeline.records.document_unpacking import split_documents
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.records.tf_example import parse_records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer, encodable
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts
from transbeam.trainer.input.streams import make_streams

Row = dict[str, np.ndarray]

_BATCH = 64  # records
# Features with one value per token; and endings of those with one per document.
_TOKENS, _WHOLE = ("token_ids", "segment_ids", "prefix_mask"), ("label", "image")


def read_records(manifest: Manifest, split: str, most: int) -> AnalyzedTexts:
    """Reads documents from records, one per row, with masked tokens restored.

    Records of several lengths are read in turn, the shortest first; the same records
    are read in the same order each time.

    Args:
        manifest: The records.
        split: `train` or `validation`.
        most: Largest number of documents.

    Raises:
        ArtifactError: The split has no record.
    """
    rows = islice(_documents(manifest, split), most)
    is_training = split == "train" or not manifest.has_validation
    return AnalyzedTexts("training" if is_training else "validation", tuple(rows))


def _documents(manifest: Manifest, split: str) -> Iterator[Row]:
    for stream in make_streams(manifest, split, _BATCH):
        for serialized in stream.once().batch(_BATCH):
            parsed = parse_records(serialized, stream.features)
            yield from unpack_documents({k: np.array(v) for k, v in parsed.items()})


def unpack_documents(records: Row) -> Iterator[Row]:
    """Yields the documents of packed records.

    Args:
        records: The features of some records, (B, …).

    Example:
    >>> records = {
    ...     "token_ids": np.array([[5, 6, 7, 0]]),
    ...     "document_ids": np.array([[1, 1, 2, 0]]),
    ...     "masked_positions": np.array([[1, 0]]),
    ...     "masked_ids": np.array([[9, 0]]),
    ...     "masked_weights": np.array([[1.0, 0.0]]),
    ... }
    >>> [row["token_ids"].tolist() for row in unpack_documents(records)]
    [[5, 9], [7]]
    """
    if "masked_ids" in records:
        records = {**records, "token_ids": _restored(records)}
    whole = {k: v for k, v in records.items() if k.endswith(_WHOLE)}
    sides = [name.removesuffix("document_ids") for name in records]
    sides = [s for s, name in zip(sides, records, strict=True) if s != name]
    if not sides:
        for number in range(len(next(iter(whole.values())))):
            yield {name: values[number] for name, values in whole.items()}
        return
    parts = [split_documents(records[f"{side}document_ids"]) for side in sides]
    # The n-th document of the decoder belongs to the n-th of the encoder.
    for cells in zip(*parts, strict=True):
        row = {
            f"{side}{name}": records[f"{side}{name}"].reshape(-1)[cell]
            for side, cell in zip(sides, cells, strict=True)
            for name in _TOKENS
            if f"{side}{name}" in records
        }
        record = cells[0][0] // prod(records[f"{sides[0]}document_ids"].shape[1:])
        yield row | {name: values[record] for name, values in whole.items()}


def _restored(records: Row) -> np.ndarray:
    token_ids = records["token_ids"].copy()
    row, slot = np.nonzero(records["masked_weights"] > 0)
    token_ids[row, records["masked_positions"][row, slot]] = records["masked_ids"][
        row, slot
    ]
    return token_ids


def read_text_file(
    path: Path, model: Model, tokenizer: Tokenizer, most: int
) -> tuple[AnalyzedTexts, int]:
    """Reads texts from a UTF-8 file, one per line, and frames them as records are.

    Texts longer than the model are truncated. Empty lines are skipped.

    Args:
        path: The file.
        model: The `model` section of the run.
        tokenizer: The run's tokenizer.
        most: Largest number of texts.

    Returns:
        The texts, and the number of truncated ones.

    Raises:
        ConfigError: The model reads pairs of texts or images.
        DataError: The file is missing, is not UTF-8 or has no text.
    """
    _check_reads_texts(model)
    lines = list(islice((line for line in _lines(path) if line.strip()), most))
    if not lines:
        raise DataError(f"{path}: has no text; expected one text per line, in UTF-8")
    tokens = tokenizer.tokenize(encodable(lines))
    before, after = find_frame(model, tokenizer)
    longest = model.max_sequence_length - len(before) - len(after)
    rows = _unragged(tokens)
    lines = [line for line, row in zip(lines, rows, strict=True) if len(row)]
    rows = [row for row in rows if len(row)]
    truncated = sum(len(row) > longest for row in rows)
    framed = tuple(make_row([*before, *row[:longest], *after], model) for row in rows)
    return AnalyzedTexts(path.name, framed, tuple(lines)), truncated


def _check_reads_texts(model: Model) -> None:
    if isinstance(model, Seq2SeqModelConfig):
        raise ConfigError(
            "--texts: an encoder-decoder reads pairs of texts, and a file of lines has "
            "none; analyze the run's records instead: --split validation"
        )
    if isinstance(model, EncoderConfig) and model.patches is not None:
        raise ConfigError(
            "--texts: the model reads images; analyze the run's records instead: "
            "--split validation"
        )


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8: {error}. Convert it") from None
    except (OSError, ValueError) as error:  # a path with a NUL is no OSError
        raise DataError(f"{path}: cannot be read: {error}") from None


def find_frame(model: Model, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Returns the special tokens before and after a text in records."""
    special = tokenizer.special
    if isinstance(model, DecoderConfig):
        # A document of a decoder ends with its token; it begins with one if the
        # tokenizer has one of its own.
        begin = special.begin if special.begin != special.end else None
        end = special.end if model.text_pooler.kind == "end_token" else None
        return (
            [i for i in (begin,) if i is not None],
            [i for i in (end,) if i is not None],
        )
    return (
        [i for i in (special.begin,) if i is not None],
        [i for i in (special.end,) if i is not None],
    )


def make_row(token_ids: Sequence[int], model: Model) -> Row:
    """Returns the features of a text with its special tokens."""
    row = {"token_ids": np.array(token_ids, np.int32)}
    if isinstance(model, EncoderConfig) and model.reads_segments:
        row["segment_ids"] = np.zeros_like(row["token_ids"])
    return row


def _unragged(tokens: tf.RaggedTensor) -> list[np.ndarray]:
    return np.split(tokens.flat_values.numpy(), tokens.row_splits.numpy()[1:-1])
