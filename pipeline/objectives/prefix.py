"""Prefix language modeling: a text's end is predicted from its beginning.

The length of the prefix is sampled for each chunk of a document; attention is
bidirectional within the prefix ([Raffel et al.,
2020](https://arxiv.org/abs/1910.10683), 3.2).
"""

from dataclasses import replace

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.randomness import stage_key, uniform
from transbeam.pipeline.objectives import causal
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.packing.sequence_packing import Packed
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a causal record and the mask of the prefix."""
    length = run.data.sequence_length
    return (
        *causal.features(run),
        Feature(
            "prefix_mask",
            "int32",
            (length,),
            "1 for prefix tokens, which attend in both directions, else 0",
        ),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes causal records without targets in the prefix of each chunk."""
    records, packed = causal.make_packed_records(batch, tokenizer, run)
    prefix_mask = prefixes(packed, run.seed)
    # The target of the last prefix token is the first one after the prefix.
    given = np.zeros(prefix_mask.shape, np.bool_)
    same = packed.document_ids[:, 1:] == packed.document_ids[:, :-1]
    given[:, :-1] = (prefix_mask[:, 1:] == 1) & same
    weights = records.arrays["target_weights"] * ~given
    arrays = {
        **records.arrays,
        "target_weights": weights,
        "prefix_mask": prefix_mask,
    }
    counts = {**records.counts, "predictions": int(weights.sum())}
    return replace(records, arrays=arrays, counts=counts)


def prefixes(packed: Packed, seed: int) -> np.ndarray:
    """Returns the prefix mask, int32 (records, L): 1 in the prefix of each chunk.

    A prefix has at least one token, and at least one token follows it unless the chunk
    has only one token; all possible prefix lengths are equally likely.
    """
    chunks = packed.chunks
    draws = uniform(stage_key(seed, "prefix"), chunks.keys, chunks.offsets)
    lengths = 1 + (draws * np.maximum(chunks.lengths - 1, 0)).astype(np.int64)
    first = packed.first_chunks(slice(None))[:, np.newaxis]
    chunk = first + packed.document_ids - 1
    is_prefix = packed.position_ids < lengths.take(chunk, mode="clip")
    return (is_prefix & (packed.document_ids > 0)).astype(np.int32)
