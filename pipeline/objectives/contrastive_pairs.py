"""Pairs for contrastive learning: each text in a row of its own.

    [CLS] text [SEP]
    [CLS] second text [SEP]
    [CLS] hard negative [SEP]

The special tokens of a decoder's records are others, see
`transbeam.pipeline.tokenizers.base.text_frame`.

The rows of a record are one below the other, so its features have one more axis. In a
document without a hard negative, its row has special tokens alone, or nothing where a
decoder's texts have none, and its hash is 0.

The hash of a text tells the loss which texts are equal. It is taken of the tokens that
the model reads: texts that differ only in what the tokenizer drops, or behind the end
of a record, have equal vectors, too.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.traits import fields_needed
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    one_per_record,
    reasons_against,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import check_special
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.token_rows import (
    Grid,
    TokenRows,
    slice_rows,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame, frame_of_run

_EQUAL = "both texts of the pair have the same tokens"


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record: token arrays (N, T), and hashes (N, 2)."""
    assert isinstance(run.objective, ContrastivePairsConfig)
    texts = run.objective.texts_per_record
    rows = [
        Feature(row.name, row.dtype, (texts, *row.shape), _MEANINGS[row.name])
        for row in token_features(run.data.sequence_length)
    ]
    hashes = "hash of each text's tokens, as two numbers; 0 for a missing text"
    return (*rows, Feature("text_hashes", "int32", (texts, 2), hashes))


_MEANINGS = {
    "token_ids": "token ids of each text, the input of the model",
    "document_ids": "number of the text in the record, from 1; 0 for padding",
    "position_ids": "position in the text, from 0; 0 for padding",
}


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per pair, in the order of the documents' keys.

    Pairs whose texts have the same tokens are filtered, if they are not kept on
    purpose. A hard negative that has the
    tokens of one of its pair's texts, or none, is ignored, and counted.
    """
    assert isinstance(run.objective, ContrastivePairsConfig)
    check_special(tokenizer.special, run)
    frame = frame_of_run(run, tokenizer.special)
    room = run.data.sequence_length - frame.size()
    reasons = reasons_against(batch, ["text", "second_text"])
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    names = fields_needed(run.objective)
    whole = [tokenize_column(usable, tokenizer, name) for name in names]
    texts = [_shortened(text, room) for text in whole]
    hashes = np.stack([_hashes(text) for text in texts], axis=1)  # (D, N)

    has_tokens = np.all(hashes[:, :2] != 0, axis=1)
    is_equal = has_tokens & (hashes[:, 0] == hashes[:, 1])
    if run.objective.equal_texts == "keep":
        is_equal[:] = False
    useful = np.flatnonzero(has_tokens & ~is_equal)
    hashes = hashes[useful]
    texts = [slice_rows(text, useful, 0, text.lengths[useful]) for text in texts]
    counts: dict[str, int] = {}
    if run.objective.hard_negatives:
        wrong = np.any(hashes[:, 2:] == hashes[:, :2], axis=1)
        given = sum(len(text) > 0 for text in usable.take(useful).texts(names[2]))
        hashes[wrong, 2] = 0
        lengths = np.where(wrong, 0, texts[2].lengths)
        texts[2] = slice_rows(texts[2], np.arange(len(useful)), 0, lengths)
        used = int(np.sum(hashes[:, 2] != 0))
        counts = {"hard_negatives": used, "ignored_negatives": given - used}

    cut = sum(np.maximum(text.lengths[useful] - room, 0) for text in whole)
    documents = rows[useful]
    length = run.data.sequence_length
    arrays, sizes = _arrays(texts, frame, tokenizer.special.pad, length)
    return Records(
        arrays={**arrays, "text_hashes": _as_int32(hashes)},
        placement=one_per_record(documents),
        lengths=sizes,
        counts={
            **token_counts(tokenizer, *texts),
            "truncated_documents": int(np.sum(cut > 0)),
            "truncated_tokens": int(np.sum(cut)),
            "padding": len(texts) * length * len(useful) - int(sizes.sum()),
            "empty_documents": int(np.sum(~has_tokens)),
            **counts,
        },
        rejected=rejected_rows(reasons),
        filtered=[(row, _EQUAL) for row in rows[is_equal].tolist()],
    )


def _shortened(text: TokenRows, room: int) -> TokenRows:
    """Cuts off the ends of texts that are longer than a row."""
    every = np.arange(len(text.lengths))
    return slice_rows(text, every, 0, np.minimum(text.lengths, room))


def _hashes(text: TokenRows) -> np.ndarray:
    """Hashes the tokens of each row, int64 (D,): 0 for a row without tokens only."""
    found = np.zeros(len(text.lengths), np.int64)
    for row, (start, stop) in enumerate(
        zip(text.row_splits[:-1], text.row_splits[1:], strict=True)
    ):
        if start < stop:
            digest = hashlib.blake2b(text.ids[start:stop].tobytes(), digest_size=8)
            found[row] = int.from_bytes(digest.digest(), "little", signed=True) or 1
    return found


def _as_int32(hashes: np.ndarray) -> np.ndarray:
    """Splits hashes into halves: int64 (D, N) to int32 (D, N, 2)."""
    return hashes.astype("<i8").view("<i4").reshape(*hashes.shape, 2).astype(np.int32)


def _arrays(
    texts: Sequence[TokenRows], frame: TextFrame, pad: int, length: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Makes token arrays (D, N, T), and counts the tokens of each record (D,)."""
    columns: dict[str, list[np.ndarray]] = {}
    lengths = []
    for number, text in enumerate(texts, start=1):
        framed = frame_texts(text, frame=frame)
        grid = Grid.from_lengths(framed.lengths, length)
        arrays = grid.token_arrays(framed.ids, pad)
        arrays["document_ids"] *= number
        for name, array in arrays.items():
            columns.setdefault(name, []).append(array)
        lengths.append(framed.lengths)
    stacked = {name: np.stack(arrays, axis=1) for name, arrays in columns.items()}
    return stacked, np.sum(lengths, axis=0)
