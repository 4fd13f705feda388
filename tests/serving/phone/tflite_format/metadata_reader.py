"""Reads TFLite Metadata as a client does: by the published schema."""

import io
import zipfile
from typing import Any

from ai_edge_litert import schema_py_generated as model_schema
from flatbuffers import encode, number_types
from flatbuffers.table import Table

from transbeam.serving.phone.tflite_format.flatbuffer_io import Schema, list_fields
from transbeam.serving.phone.tflite_format.tflite_metadata import BUFFER, SCHEMA

_TYPE_WORDS = 2  # header words of a vtable: its size and the table's
_WORD = 2  # bytes


def read_metadata(content: bytes) -> dict[str, Any]:
    """Reads the metadata of a TFLite file by the schema's names; {} if it has none."""
    model = model_schema.Model.GetRootAsModel(content, 0)
    for number in range(model.MetadataLength()):
        entry: Any = model.Metadata(number)
        if entry.Name().decode() == BUFFER:
            buffer: Any = model.Buffers(entry.Buffer())
            data = buffer.DataAsNumpy().tobytes()
            return read_table(SCHEMA, "ModelMetadata", data)
    return {}


def read_files(content: bytes) -> dict[str, bytes]:
    """Reads the files embedded in a TFLite file, by name."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_table(schema: Schema, name: str, content: bytes) -> dict[str, Any]:
    """Reads a flatbuffer with one table at its root; unknown fields are skipped."""
    root = encode.Get(number_types.UOffsetTFlags.packer_type, content, 0)
    return _read(schema, name, Table(content, root))


def _read(schema: Schema, name: str, table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, kind, number in list_fields(schema, name):
        offset = table.Offset((_TYPE_WORDS + number) * _WORD)
        if not offset:
            continue
        if isinstance(kind, tuple):
            type_offset = table.Offset((_TYPE_WORDS + number - 1) * _WORD)
            of = kind[_byte(table, type_offset) - 1]
            place = table.Indirect(table.Pos + offset)
            found[field] = of, _read(schema, of, Table(table.Bytes, place))
        elif isinstance(kind, list):
            first, length = table.Vector(offset), table.VectorLen(offset)
            size = number_types.UOffsetTFlags.bytewidth
            places = [table.Indirect(first + size * i) for i in range(length)]
            found[field] = [
                _read(schema, kind[0], Table(table.Bytes, place)) for place in places
            ]
        elif kind == "string":
            found[field] = table.String(table.Pos + offset).decode()
        elif kind == "byte":
            found[field] = _byte(table, offset)
        else:
            place = table.Indirect(table.Pos + offset)
            found[field] = _read(schema, kind, Table(table.Bytes, place))
    return found


def _byte(table: Table, offset: int) -> int:
    return table.Get(number_types.Int8Flags, table.Pos + offset)
