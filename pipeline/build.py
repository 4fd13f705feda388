"""Second half of the job: clean documents become packed, masked records."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from configs.files import write_json
from configs.run import RunConfig
from pipeline.documents import SPLITS, document_hash
from pipeline.examples import encode_records, read_texts
from pipeline.features import contract
from pipeline.objectives.masked import mask_records
from pipeline.packing import cut_documents, pack
from pipeline.prepare import documents_path
from pipeline.shard_writer import write_shard
from pipeline.sources import Unit
from pipeline.states import state_path
from pipeline.tokenizers.vocabulary import SPECIAL_PIECES
from pipeline.tokenizers.wordpiece import WordPieceTokenizer


@dataclass
class Built:
    """What became of a unit's documents, by split."""

    shards: list[dict[str, Any]] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    unknown_tokens: dict[str, int] = field(default_factory=dict)
    padding: dict[str, int] = field(default_factory=dict)
    predictions: dict[str, int] = field(default_factory=dict)
    empty_documents: dict[str, int] = field(default_factory=dict)


def build_unit(
    unit: Unit, config: RunConfig, folder: Path, tokenizer: WordPieceTokenizer
) -> None:
    """Tokenizes, packs, masks and writes the documents of a unit."""
    marker = state_path(folder, "records", unit.index)
    if marker.is_file():
        return
    built = Built()
    for split in SPLITS:
        ids, row_splits, keys = _tokenize(
            folder / documents_path(unit, split), tokenizer
        )
        packed = pack(
            ids,
            cut_documents(row_splits, keys, config.data.sequence_length - 2),
            config.data.sequence_length,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        arrays = mask_records(
            packed,
            config.objective,
            seed=config.seed,
            mask_id=tokenizer.mask_id,
            ordinary_ids=np.arange(
                len(SPECIAL_PIECES), tokenizer.vocabulary_size, dtype=np.int32
            ),
        )
        shard = write_shard(
            folder,
            f"records/{split}-{unit.index:05d}.tfrecord",
            split,
            encode_records(arrays, contract(config)),
        )
        built.shards.append(shard.as_json())
        built.tokens[split] = len(ids)
        built.unknown_tokens[split] = int(np.sum(ids == tokenizer.unknown_id))
        built.padding[split] = int(np.sum(packed.document_ids == 0))
        built.predictions[split] = int(arrays["masked_weights"].sum())
        built.empty_documents[split] = int(np.sum(np.diff(row_splits) == 0))
    write_json(marker, asdict(built))


def _tokenize(
    path: Path, tokenizer: WordPieceTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All documents of a file as one row of ids, its row splits, and their hashes."""
    ids = [np.zeros(0, np.int32)]
    lengths = [np.zeros(0, np.int64)]
    keys: list[int] = []
    for texts in read_texts(path):
        tokens = tokenizer.tokenize(tf.constant(texts))
        ids.append(tokens.flat_values.numpy())
        lengths.append(tokens.row_lengths().numpy())
        keys.extend(document_hash(text.decode("utf-8")) for text in texts)
    row_splits = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return np.concatenate(ids), row_splits, np.array(keys, np.uint64)
