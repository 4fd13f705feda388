"""Writes Python values as flatbuffers of any schema.

A schema is a dict that replaces generated classes: it maps each table's name to the
table's fields, in the order of their ids. A field is one of

- `"string"` or `"byte"`;
- the name of a table, for one such table;
- a list with the name of a table, for a vector of tables;
- a tuple of names, for a union. A union takes two ids: one for its type, then one for
  its value;
- None, for an unused field, which still takes an id.

The value of a table is a dict of its fields. The value of a union is a pair of a
table's name and its value: `(name, value)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers

Field = str | list[str] | tuple[str, ...] | None
Schema = Mapping[str, Mapping[str, Field]]

_OFFSET_BYTES = 4


def write_table(
    schema: Schema, name: str, value: Mapping[str, Any], mark: str
) -> bytes:
    """Writes a flatbuffer with one table at its root.

    Args:
        schema: The schema of all tables of the flatbuffer.
        name: The root table's name.
        value: The values of the root table's fields; missing fields are not written.
        mark: The file identifier, four characters.

    Example:
    >>> schema = {"Shelf": {"books": ["Book"]}, "Book": {"title": "string"}}
    >>> content = write_table(schema, "Shelf", {"books": [{"title": "Emma"}]}, "BOOK")
    >>> content[4:8], b"Emma" in content
    (b'BOOK', True)
    """
    builder = flatbuffers.Builder()
    builder.Finish(_write(builder, schema, name, value), mark.encode())
    return bytes(builder.Output())


def list_fields(schema: Schema, name: str) -> list[tuple[str, Any, int]]:
    """Returns the used fields of a table: name, kind and id."""
    fields, number = [], 0
    for field, kind in schema[name].items():
        number += isinstance(kind, tuple)  # the union's type comes first
        if kind is not None:
            fields.append((field, kind, number))
        number += 1
    return fields


def _write(
    builder: flatbuffers.Builder, schema: Schema, name: str, value: Mapping[str, Any]
) -> int:
    """Writes a table after all objects that the table refers to; returns its offset."""
    fields = list_fields(schema, name)
    if unknown := value.keys() - {field for field, *_ in fields}:
        raise KeyError(f"{name} has no {', '.join(sorted(unknown))}")
    written: list[tuple[int, Any]] = []  # by id: an offset, or a byte to inline
    for field, kind, number in fields:
        if field not in value:
            continue
        of = value[field]
        if isinstance(kind, tuple):
            written.append((number - 1, ("byte", kind.index(of[0]) + 1)))
            written.append((number, _write(builder, schema, *of)))
        elif isinstance(kind, list):
            offsets = [_write(builder, schema, kind[0], each) for each in of]
            written.append((number, _write_vector(builder, offsets)))
        elif kind == "string":
            written.append((number, builder.CreateString(of)))
        elif kind == "byte":
            written.append((number, ("byte", of)))
        else:
            written.append((number, _write(builder, schema, kind, of)))
    builder.StartObject(1 + max((number for number, _ in written), default=-1))
    for number, of in written:
        if isinstance(of, tuple):
            builder.PrependInt8Slot(number, of[1], 0)
        else:
            builder.PrependUOffsetTRelativeSlot(number, of, 0)
    return builder.EndObject()


def _write_vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(_OFFSET_BYTES, len(offsets), _OFFSET_BYTES)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
