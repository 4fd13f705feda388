"""Records of a run as people read them: pieces, targets, documents and labels."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import CONTINUATION
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.base.run_records import Record, Split, records
from transbeam.serving.base.trained_run import TOKENIZER
from transbeam.serving.studio.described_tokens import piece_texts
from transbeam.serving.studio.studio_error import StudioError

MOST_RECORDS = 20
LAST_RECORD = 10_000
# Of a row, in tokens.
_MOST_TOKENS = 1024
# Shown with the tokens, or of no use to readers.
_SHOWN_WITH_TOKENS = (
    "document_ids",
    "position_ids",
    "word_ids",
    "segment_ids",
    "prefix_mask",
    "masked_positions",
    "masked_ids",
    "label_ids",
    "_weights",
)


def read_samples(
    folder: Path, labels: Sequence[str], split: Split, first: int, count: int
) -> list[dict[str, Any]]:
    """Reads some records of a run.

    Args:
        folder: The run's folder.
        labels: The names of the classes or tags, if the objective has any.
        split: `train` or `validation`.
        first: Number of the first record, in the order of the files.
        count: Number of records, at most `MOST_RECORDS`.

    Returns:
        A JSON object for each record, see `schemas.SAMPLES`.

    Raises:
        StudioError: `first` or `count` is out of range.
        ArtifactError: A record or the tokenizer is missing or damaged.
    """
    if not (0 <= first <= LAST_RECORD and 1 <= count <= MOST_RECORDS):
        raise StudioError(
            f"expected a first record from 0 to {LAST_RECORD:,} and 1 to "
            f"{MOST_RECORDS} records, found {first:,} and {count:,}"
        )
    tokenizer = load_tokenizer(folder / TOKENIZER)
    pieces = ReadablePieces(tokenizer)
    try:
        found = list(islice(records(folder, split), first, first + count))
        return [
            {"number": first + place, **describe_record(record, pieces, labels)}
            for place, record in enumerate(found)
        ]
    except (DecodeError, tf.errors.OpError, LookupError, ValueError, OSError) as error:
        message = str(error).splitlines()[0]
        raise ArtifactError(
            f"{folder / 'data/records'}: a record of {split} is damaged, or was made "
            f"with another tokenizer: {message}"
        ) from None


class ReadablePieces:
    """Readable pieces of token ids.

    Args:
        tokenizer: The tokenizer that made the ids.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.starts_word = tokenizer.starts_word
        # The page joins the pieces of a word, so that they need no mark.
        self.texts = [
            piece if starts else piece.removeprefix(CONTINUATION)
            for piece, starts in zip(
                piece_texts(tokenizer), self.starts_word.tolist(), strict=True
            )
        ]
        self.is_special = np.ones(tokenizer.vocabulary_size, bool)
        self.is_special[tokenizer.ordinary_ids] = False

    def row(self, ids: np.ndarray) -> dict[str, list[Any]]:
        """Describes the tokens of a row: `pieces`, `starts_word` and `special`."""
        return {
            "pieces": [self.texts[token] for token in ids.tolist()],
            "starts_word": self.starts_word[ids].astype(bool).tolist(),
            "special": self.is_special[ids].tolist(),
        }


def describe_record(
    record: Record, pieces: ReadablePieces, labels: Sequence[str]
) -> dict[str, Any]:
    """Describes a record.

    Args:
        record: Its features by name, each a flat array.
        pieces: Pieces of the tokenizer.
        labels: The names of the classes or tags, if the objective has any.

    Returns:
        `rows`, one for each row of tokens, and `values`, pairs of a name and a text.
    """
    names = [name for name in sorted(record) if name.endswith("token_ids")]
    names.sort(key=lambda name: name.startswith("decoder"))
    rows = [
        _describe_row(name.removesuffix("token_ids"), record, pieces, labels)
        for name in names
    ]
    values = [
        {"name": name, "text": _value_text(name, values, labels)}
        for name, values in sorted(record.items())
        if name not in names and not name.endswith((*_SHOWN_WITH_TOKENS, "target_ids"))
    ]
    return {"rows": rows, "values": values}


def _describe_row(
    prefix: str, record: Record, pieces: ReadablePieces, labels: Sequence[str]
) -> dict[str, Any]:
    ids = record[f"{prefix}token_ids"]
    documents = record.get(f"{prefix}document_ids", np.ones_like(ids))
    length = int(np.flatnonzero(documents)[-1]) + 1 if documents.any() else 0
    shown = min(length, _MOST_TOKENS)
    row = {
        "name": prefix.rstrip("_") or "text",
        **pieces.row(ids[:shown]),
        "documents": documents[:shown].tolist(),
        "targets": [None] * shown,
        "tags": [None] * shown,
        "given": [False] * shown,
        "left_out": length - shown,
        "padding": len(ids) - length,
    }
    if prefix:
        return row
    return row | _targets(record, shown, pieces.texts, labels)


def _targets(
    record: Record, shown: int, pieces: Sequence[str], labels: Sequence[str]
) -> dict[str, Any]:
    """Returns masked tokens, tags and the prefix, at their tokens."""
    found: dict[str, Any] = {}
    if "masked_positions" in record:
        targets: list[str | None] = [None] * shown
        used = record["masked_weights"] > 0
        places = record["masked_positions"][used].tolist()
        for place, token in zip(places, record["masked_ids"][used], strict=True):
            if place < shown:
                targets[place] = pieces[token]
        found["targets"] = targets
    if "label_ids" in record and "label_weights" in record:
        tags = zip(record["label_ids"], record["label_weights"], strict=True)
        found["tags"] = [
            _label(labels, int(tag)) if weight > 0 else None for tag, weight in tags
        ][:shown]
    if "prefix_mask" in record:
        found["given"] = (record["prefix_mask"][:shown] > 0).tolist()
    if record.get("end_position", np.zeros(1)).sum() > 0:  # else not in this window
        places = np.arange(shown)
        first, last = int(record["start_position"][0]), int(record["end_position"][0])
        found["given"] = ((places >= first) & (places <= last)).tolist()
    return found


def _value_text(name: str, values: np.ndarray, labels: Sequence[str]) -> str:
    if values.dtype == np.uint8:
        return f"{len(values):,} bytes"
    if name.endswith("label") and values.dtype != np.float32 and labels:
        if len(values) == 1:
            return _label(labels, int(values[0]))
        return ", ".join(labels[i] for i in np.flatnonzero(values).tolist()) or "(none)"
    if len(values) == 1:
        return f"{values[0]:g}"
    return np.array2string(values, threshold=16, edgeitems=8)


def _label(labels: Sequence[str] | Mapping[int, str], number: int) -> str:
    return labels[number] if number < len(labels) else str(number)
