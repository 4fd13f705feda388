"""Causal language modeling: each token is predicted from the previous ones.

Records contain the target at each token, so no later code has to shift them ([Radford
et al.,
2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)).
"""

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import token_counts
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.packing.sequence_packing import Packed, pack_streams
from transbeam.pipeline.records.token_rows import (
    TokenRows,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    length = run.data.sequence_length
    return (*token_features(length), *target_features(length))


def target_features(length: int) -> tuple[Feature, ...]:
    """Returns the features of the target at each token."""
    return (
        Feature("target_ids", "int32", (length,), "the next token, which is predicted"),
        Feature(
            "target_weights",
            "float32",
            (length,),
            "1 where a token is predicted; 0 at a document's end and for padding",
        ),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Packs documents with their special tokens; the targets are the next tokens."""
    return make_packed_records(batch, tokenizer, run)[0]


def make_packed_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig
) -> tuple[Records, Packed]:
    """Makes the records; also returns the packed documents."""
    needed(tokenizer, run, "end")
    rows = tokenize_column(batch, tokenizer)
    stream, packed = pack_streams(rows, batch.keys, run, tokenizer.special)
    targets, weights = next_tokens(stream, packed)
    records = Records(
        arrays={
            "token_ids": packed.token_ids,
            "document_ids": packed.document_ids,
            "position_ids": packed.position_ids,
            "target_ids": targets,
            "target_weights": weights,
        },
        placement=packed.placement,
        lengths=packed.lengths,
        counts={
            **token_counts(tokenizer, rows),
            "padding": int(np.sum(packed.document_ids == 0)),
            "predictions": int(weights.sum()),
            "empty_documents": int(np.sum(rows.lengths == 0)),
        },
    )
    return records, packed


def next_tokens(stream: TokenRows, packed: Packed) -> tuple[np.ndarray, np.ndarray]:
    """Returns each token's next token in its document, even if it is in another record.

    Each token of a document except the first is thus predicted exactly once.

    Args:
        stream: The documents.
        packed: The records in which the documents are packed, without special tokens
            around chunks.

    Returns:
        int32 and float32, of the shape of `packed.token_ids`: the targets, and their
        weights: 1 for tokens with a target, else 0.
    """
    document_ids = packed.document_ids
    targets = np.zeros_like(packed.token_ids)
    follows = np.zeros(targets.shape, np.bool_)
    follows[:, :-1] = document_ids[:, 1:] == document_ids[:, :-1]
    follows &= document_ids > 0
    targets[:, :-1] = packed.token_ids[:, 1:] * follows[:, :-1]

    # At a cut in a document, the next token is the first of the next chunk.
    last_cells = np.flatnonzero((document_ids > 0) & ~follows)  # in the order of chunks
    after = packed.chunks.starts + packed.chunks.lengths
    is_cut = ~np.isin(after, stream.row_splits)
    targets.reshape(-1)[last_cells[is_cut]] = stream.ids[after[is_cut]]
    follows.reshape(-1)[last_cells[is_cut]] = True
    return targets, follows.astype(np.float32)
