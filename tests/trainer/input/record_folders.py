"""Small folders of records to read, each record with a number of its own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.pipeline.objectives.word_tokenizer import run_of
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.pipeline.objectives.masked import features
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.records.shard_writer import write_shard
from transbeam.pipeline.records.tf_example import encode_records

Shards = Mapping[tuple[str, int], list[int]]


def write_records(folder: Path, shards: Shards, first: int = 0) -> Manifest:
    """Records for dynamic masking; a record's number is its first token.

    Args:
        folder: A new folder.
        shards: How many records the shards have, by split and length.
        first: Number of the first record; the others follow.
    """
    lengths = sorted({length for _, length in shards})
    contracts = {
        length: features(run_of(MaskedConfig(masking="dynamic"), length))
        for length in lengths
    }
    made = []
    for (split, length), sizes in shards.items():
        for size in sizes:
            numbers = np.arange(first, first + size, dtype=np.int32)
            first += size
            columns = np.broadcast_to(np.arange(length, dtype=np.int32), (size, length))
            arrays = {
                "token_ids": (columns + 5) * (columns > 0)
                + numbers[:, np.newaxis] * (columns == 0),
                "document_ids": np.ones((size, length), np.int32),
                "position_ids": columns,
                "word_ids": columns,  # 0 on the number: it is never hidden
            }
            shard = write_shard(
                folder,
                f"{split}-{len(made)}-{length}",
                split,
                encode_records(arrays, contracts[length]),
            )
            made.append(replace(shard, sequence_length=length))
    several = contracts if len(lengths) > 1 else {}
    return Manifest(folder, contracts[lengths[-1]], tuple(made), {}, {}, several)


def numbers(batches: tf.data.Dataset, count: int = -1) -> list[list[int]]:
    """The numbers of the records of each batch."""
    return [batch["token_ids"][:, 0].numpy().tolist() for batch in batches.take(count)]
