"""Reads and writes flatbuffers of any schema as Python values.

A schema is a dict in place of generated classes: the fields of each table in the order
of their ids. A field is one of

- `"string"` or `"byte"`;
- the name of a table, for one such table;
- a list with such a name, for a vector of tables;
- a tuple of names, for a union. It takes two ids: its value comes after its type;
- None, for an unused field, which still takes an id.

A value is a dict of a table's fields. That of a union names its table: `(name, value)`.
"""

from collections.abc import Mapping
from typing import Any

import flatbuffers
from flatbuffers import encode, number_types
from flatbuffers.table import Table

Field = str | list[str] | tuple[str, ...] | None
Schema = Mapping[str, Mapping[str, Field]]

_TYPE_WORDS = 2  # header words of a vtable: its size and the table's
_WORD = 2  # bytes


def write_table(
    schema: Schema, name: str, value: Mapping[str, Any], mark: str
) -> bytes:
    """Writes a flatbuffer with one table at its root.

    Args:
        schema: Of all its tables.
        name: The root table's name.
        value: Its fields; missing ones are not written.
        mark: The file identifier, four characters.

    Example:
    >>> schema = {"Shelf": {"books": ["Book"]}, "Book": {"title": "string"}}
    >>> content = write_table(schema, "Shelf", {"books": [{"title": "Emma"}]}, "BOOK")
    >>> content[4:8], read_table(schema, "Shelf", content)
    (b'BOOK', {'books': [{'title': 'Emma'}]})
    """
    builder = flatbuffers.Builder()
    builder.Finish(_write(builder, schema, name, value), mark.encode())
    return bytes(builder.Output())


def read_table(schema: Schema, name: str, content: bytes) -> dict[str, Any]:
    """Reads a flatbuffer written by `write_table` or another program.

    Args:
        schema: Of the tables; unknown fields are skipped.
        name: The root table's name.
        content: The flatbuffer.
    """
    root = encode.Get(number_types.UOffsetTFlags.packer_type, content, 0)
    return _read(schema, name, Table(content, root))


def _slots(schema: Schema, name: str) -> list[tuple[str, Any, int]]:
    """Returns the used fields of a table with their ids."""
    slots, number = [], 0
    for field, kind in schema[name].items():
        number += isinstance(kind, tuple)  # the union's type comes first
        if kind is not None:
            slots.append((field, kind, number))
        number += 1
    return slots


def _write(
    builder: flatbuffers.Builder, schema: Schema, name: str, value: Mapping[str, Any]
) -> int:
    """Writes a table, after all objects it refers to; returns its offset."""
    slots = _slots(schema, name)
    if unknown := value.keys() - {field for field, *_ in slots}:
        raise KeyError(f"{name} has no {', '.join(sorted(unknown))}")
    written: list[tuple[int, Any]] = []  # by id: a number to inline, or a place
    for field, kind, number in slots:
        if field not in value:
            continue
        of = value[field]
        if isinstance(kind, tuple):
            written.append((number - 1, ("byte", kind.index(of[0]) + 1)))
            written.append((number, _write(builder, schema, of[0], of[1])))
        elif isinstance(kind, list):
            written.append((number, _write_all(builder, schema, kind[0], of)))
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


def _write_all(
    builder: flatbuffers.Builder, schema: Schema, name: str, values: list[Any]
) -> int:
    places = [_write(builder, schema, name, value) for value in values]
    size = number_types.UOffsetTFlags.bytewidth
    builder.StartVector(size, len(places), size)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return builder.EndVector()


def _read(schema: Schema, name: str, table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, kind, number in _slots(schema, name):
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
