"""Arrays and documents as serialized `tf.train.Example`s, and back."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.documents import Document
from pipeline.features import Feature, check_arrays

_DOCUMENT = {
    "text": tf.io.FixedLenFeature([], tf.string),
    "source": tf.io.FixedLenFeature([], tf.string),
    "offset": tf.io.FixedLenFeature([], tf.int64),
}


def encode_records(
    arrays: Mapping[str, np.ndarray], features: Sequence[Feature]
) -> Iterator[bytes]:
    """One Example per row of the arrays, which must match the record contract."""
    check_arrays(arrays, features)
    columns = {
        name: arrays[name].reshape(-1, math.prod(shape)).tolist()
        for name, shape in ((feature.name, feature.shape) for feature in features)
    }
    for row in zip(*columns.values(), strict=True):
        example = tf.train.Example()
        for feature, values in zip(features, row, strict=True):
            target = example.features.feature[feature.name]
            if feature.dtype == "int32":
                target.int64_list.value.extend(values)
            else:
                target.float_list.value.extend(values)
        # Map fields have no order of their own: ask for one, so bytes are repeatable.
        yield example.SerializeToString(deterministic=True)


def parse_records(serialized: tf.Tensor, features: Sequence[Feature]) -> dict[str, Any]:
    """A batch of Examples as tensors (batch, *shape) of the contract's dtypes."""
    stored = {"int32": tf.int64, "float32": tf.float32}
    parsed = tf.io.parse_example(
        serialized,
        {
            feature.name: tf.io.FixedLenFeature(feature.shape, stored[feature.dtype])
            for feature in features
        },
    )
    return {f.name: tf.cast(parsed[f.name], f.dtype) for f in features}


def encode_documents(documents: Iterable[Document]) -> Iterator[bytes]:
    """One Example per document, with where it came from."""
    for document in documents:
        example = tf.train.Example()
        feature = example.features.feature
        feature["text"].bytes_list.value.append(document.text.encode("utf-8"))
        feature["source"].bytes_list.value.append(document.source.encode("utf-8"))
        feature["offset"].int64_list.value.append(document.offset)
        yield example.SerializeToString(deterministic=True)


def read_texts(path: Path, block_bytes: int = 1_000_000) -> Iterator[np.ndarray]:
    """The texts of a file of documents, in blocks of about `block_bytes` as bytes."""
    block: list[bytes] = []
    size = 0
    for serialized in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        text = tf.train.Example.FromString(serialized).features.feature["text"]
        block.append(text.bytes_list.value[0])
        size += len(block[-1])
        if size >= block_bytes:
            yield np.array(block, object)
            block, size = [], 0
    if block:
        yield np.array(block, object)
