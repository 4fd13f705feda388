"""Reads TFRecord files of `tf.train.Example`s without TensorFlow.

A feature with one value is read as a scalar, a feature with several values as a list;
bytes are read as UTF-8 text. A record's offset is its number in the file, counted from
0.

References:
    - [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord), its format
"""

import itertools
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from google.protobuf.message import DecodeError

from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import TFRecordSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Item,
    Rejected,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.files.file_access import open_file
from transbeam.pipeline.sources.readers.table_rows import row_document

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")

# tensorflow/core/example/{example,feature}.proto, as descriptors in text format.
_DEFINITION = """
name: "example.proto" package: "tensorflow" syntax: "proto3"
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL oneof_index: 0
          type: TYPE_MESSAGE type_name: ".tensorflow.BytesList" }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL oneof_index: 0
          type: TYPE_MESSAGE type_name: ".tensorflow.FloatList" }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL oneof_index: 0
          type: TYPE_MESSAGE type_name: ".tensorflow.Int64List" } }
message_type { name: "Features"
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL
            type: TYPE_MESSAGE type_name: ".tensorflow.Feature" } }
  field { name: "feature" number: 1 label: LABEL_REPEATED
          type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry" } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL
          type: TYPE_MESSAGE type_name: ".tensorflow.Features" } }
"""


def read(span: Span, source: TFRecordSourceConfig) -> Iterator[Item]:
    """Yields a document per record.

    Raises:
        BrokenFile: The file is truncated or not a TFRecord file.
    """
    name = span.file.name
    with open_file(span.file) as stream:
        for number, (record, whole) in enumerate(_records(stream)):
            if not whole:
                reason, size = "damaged record", len(record)
                yield Rejected(reason, name, number, excerpt(record), unread=size)
                continue
            try:
                row = _features(record, source.columns)
            except DecodeError:
                reason = "not a tf.train.Example"
                yield Rejected.from_content(reason, name, number, record)
            else:
                yield row_document(row, source.columns, name, number)


def _records(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yields each record, and whether its checksum matches."""
    for number in itertools.count():
        header = stream.read(_HEADER.size)
        if not header:
            return
        if len(header) < _HEADER.size:
            raise BrokenFile("truncated TFRecord file", offset=number, doubtful=True)
        length, length_crc = _HEADER.unpack(header)
        if _masked_crc(header[:8]) != length_crc:
            what = "the length of a record does not match its checksum"
            raise BrokenFile("damaged TFRecord file", what, number)
        record = stream.read(length)
        footer = stream.read(_FOOTER.size)
        if len(record) < length or len(footer) < _FOOTER.size:
            raise BrokenFile("truncated TFRecord file", offset=number, doubtful=True)
        yield record, _FOOTER.unpack(footer)[0] == _masked_crc(record)


def _masked_crc(data: bytes) -> int:
    """Computes the masked CRC-32C of TFRecord files."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _features(record: bytes, columns: ColumnsConfig) -> dict[str, Any]:
    features = _EXAMPLE.FromString(record).features.feature
    row: dict[str, Any] = {}
    for column in columns.names():
        name = column if column in features else column.partition(".")[0]
        if name in features and (values := _values(features[name])):
            alone = len(values) == 1 and name not in (columns.words, columns.tags)
            row[name] = values[0] if alone else values
    return row


def _values(feature: Any) -> list[Any]:
    match feature.WhichOneof("kind"):
        case "bytes_list":
            return list(feature.bytes_list.value)
        case "int64_list":
            return list(feature.int64_list.value)
        case "float_list":
            # The shortest decimal of the float32: 3.8, not 3.799999952.
            return [float(str(np.float32(x))) for x in feature.float_list.value]
        case _:
            return []


def _example_message() -> Any:
    """Returns the message class of `tf.train.Example`, in its own descriptor pool.

    TensorFlow registers the same names in the default descriptor pool.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_DEFINITION, descriptor_pb2.FileDescriptorProto()))
    example = pool.FindMessageTypeByName("tensorflow.Example")
    return message_factory.GetMessageClass(example)


_EXAMPLE = _example_message()
