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
from transbeam.pipeline.objectives.base.next_tokens import next_tokens, target_arrays
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.packing.sequence_packing import Packed, pack_streams
from transbeam.pipeline.records.token_rows import token_features, tokenize_column
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
        arrays=target_arrays(packed, targets, weights),
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
