"""Converts table rows to documents by the configured columns, with validation.

Rules for all kinds of tables:

- a row in which a column is missing or null is rejected: "no field 'text'"; the
  quarantine entry begins with the names of the row's non-null fields;
- texts are strings, or lists of strings, which are joined with spaces. Bytes are UTF-8;
- labels, tags and targets may also be numbers or booleans, formatted as JSON;
- only the text itself may be empty (the cleaning filters such documents): a row is
  rejected if a configured label, tag, second text or target is blank;
- a hard negative may be missing, null or blank: the document then has none;
- choices are texts, numbers or booleans, and none of them is blank;
- a row without the values of `where` is filtered, whatever its other values are.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.base.templates import template_parts
from transbeam.configs.schema.columns import ColumnsConfig, columns_in, is_template
from transbeam.pipeline.documents.document import (
    Document,
    Filtered,
    Item,
    Rejected,
    excerpt,
)

_MOST_FIELDS = 50

_AsText = Callable[[Any, str], str]
_OfList = Callable[[list[Any], str], str]


class _UnusableRow(Exception):
    """A value in a row is invalid.

    Args:
        reason: The reason, in the same words for all rows with this error.
        detail: Information on the invalid row, shown before the row's excerpt.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


def row_document(
    row: Mapping[str, Any], columns: ColumnsConfig, source: str, offset: int
) -> Item:
    """Converts a row to a document.

    Args:
        row: Maps column names to values: text, bytes, number, boolean, list, mapping.
        columns: The columns for each field of the document.
        source: The file's name within the corpus.
        offset: The row's offset in the file.

    Example:
    >>> row = {"review": "Fine.", "stars": 4}
    >>> columns = ColumnsConfig(text="review", label="stars")
    >>> row_document(row, columns, "a.jsonl", 0).label
    '4'
    >>> row_document(row, ColumnsConfig(), "a.jsonl", 0).reason
    "no field 'text'"
    """
    try:
        if not _is_wanted(row, columns.where or {}):
            size = len(json.dumps(row, ensure_ascii=False, default=_shown))
            return Filtered("other rows than those of `where`", source, offset, size)
        words = _each(row, columns.words, _text)
        tags = _each(row, columns.tags, _text_or_number)
        messages = _messages(row, columns.messages)
        if columns.messages is not None:
            text = "\n".join(content for _, content in messages)
        elif columns.words is None:
            text = _filled(row, columns.text, _text, _spaced)
        else:
            _check_tagged(words, tags if columns.tags is not None else None)
            text = " ".join(words)
        return Document(
            text=text,
            source=source,
            offset=offset,
            second_text=_extra(row, columns.second_text, _text, _spaced),
            target_text=_extra(row, columns.target_text, _text_or_number, _spaced),
            label=_label(row, columns),
            words=words,
            tags=tags,
            messages=messages,
            negative_text=_if_given(row, columns.negative_text),
            choices=_choices(row, columns.choices),
            references=_references(row, columns.references),
        )
    except _UnusableRow as error:
        shown = json.dumps(row, ensure_ascii=False, default=_shown)
        detail = error.detail + excerpt(shown)
        return Rejected(str(error), source, offset, detail, len(shown))


def _is_wanted(row: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """Returns whether columns have certain values; a missing one has none."""
    for name, wanted in where.items():
        value = _find(row, name)
        if value is None or isinstance(value, list | Mapping):
            return False
        if _text_or_number(value, name) != wanted:
            return False
    return True


def _references(row: Mapping[str, Any], name: str | None) -> tuple[str, ...]:
    """Returns the different texts of a column, of which there must be one."""
    if name is None:
        return ()
    value = _value(row, name)
    values = value if isinstance(value, list) else [value]
    texts = dict.fromkeys(_text_or_number(value, name) for value in values)
    found = tuple(text for text in texts if text.strip())
    if not found:
        raise _UnusableRow(f"field {name!r} is empty")
    return found


def _shown(value: Any) -> str:
    """Converts a value that JSON does not support, such as a date, to text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def tagged_document(
    words: Sequence[str], tags: Sequence[str], source: str, offset: int
) -> Document | Rejected:
    """Makes a document of a tagged sentence; its text is the joined words.

    Example:
    >>> tagged_document(["Hi", "Ann"], ["O", "B-person"], "a.conll", 1).text
    'Hi Ann'
    """
    text = " ".join(words)
    try:
        _check_tagged(words, tags)
    except _UnusableRow as error:
        return Rejected.from_content(str(error), source, offset, text)
    return Document(text, source, offset, words=tuple(words), tags=tuple(tags))


def _check_tagged(words: Sequence[str], tags: Sequence[str] | None) -> None:
    if any(not word.strip() for word in words):
        raise _UnusableRow("an empty word")
    if tags is None:
        return
    if len(words) != len(tags):
        raise _UnusableRow("not one tag for each word")
    if any(not tag.strip() for tag in tags):
        raise _UnusableRow("an empty tag")


def _value(row: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a column, which must be there."""
    value = _find(row, name)
    if value is None:
        known = tuple(itertools.islice(_field_names(row), _MOST_FIELDS))
        raise _UnusableRow(f"no field {name!r}", _fields_there(name, known))
    return value


def _find(row: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a column, also from nested mappings and lists, or None."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = None
    return value


@lru_cache  # most rows of a file have the same fields
def _fields_there(wanted: str, known: tuple[str, ...]) -> str:
    there = excerpt(", ".join(known)) or "none"
    return f"the fields here: {there}.{did_you_mean(wanted, known)} "


def _field_names(row: Mapping[str, Any], outer: str = "") -> Iterator[str]:
    """Yields the names of non-null fields, in the notation of `ColumnsConfig`."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _field_names(value, f"{outer}{name}.")
        elif value is not None:
            yield outer + str(name)


def _extra(
    row: Mapping[str, Any],
    name: str | None,
    as_text: _AsText,
    of_list: _OfList,
) -> str:
    """Returns an optional field: empty if not configured; a blank value is an error."""
    if name is None:
        return ""
    text = _filled(row, name, as_text, of_list)
    if not text.strip():
        raise _UnusableRow(f"field {name!r} is empty")
    return text


def _label(row: Mapping[str, Any], columns: ColumnsConfig) -> str:
    """Returns the label, by its name in `label_names` if they are configured."""
    names = columns.label_names

    def named(value: Any, name: str) -> str:
        label = _text_or_number(value, name)
        if names is not None and label.strip() and label not in names:
            raise _UnusableRow("a label without a name in label_names", f"{label}: ")
        return label if names is None else names.get(label, label)

    def of_list(values: list[Any], name: str) -> str:
        labels = [named(value, name) for value in values]
        return labels[0] if len(labels) == 1 else json.dumps(labels)

    return _extra(row, columns.label, named, of_list)


def _if_given(row: Mapping[str, Any], name: str | None) -> str:
    """Returns an optional text: empty if a column is missing, null or blank."""
    if name is None or any(_find(row, column) is None for column in columns_in(name)):
        return ""
    text = _filled(row, name, _text, _spaced)
    return text if text.strip() else ""


def _filled(
    row: Mapping[str, Any], name: str, as_text: _AsText, of_list: _OfList
) -> str:
    """Returns the text of a column, or a template filled with columns."""

    def filled(column: str, of_list: _OfList) -> str:
        value = _value(row, column)
        if isinstance(value, list):
            return of_list(value, column)
        return as_text(value, column)

    if not is_template(name):
        return filled(name, of_list)
    return "".join(
        plain + ("" if field is None else filled(field, _spaced))
        for plain, field in template_parts(name)
    )


def _spaced(values: list[Any], name: str) -> str:
    """Joins a list of texts with spaces."""
    return " ".join(_text(value, name) for value in values)


def _each(
    row: Mapping[str, Any], name: str | None, as_text: _AsText
) -> tuple[str, ...]:
    if name is None:
        return ()
    value = _value(row, name)
    if isinstance(value, list):
        return tuple(as_text(element, name) for element in value)
    return tuple(_text(value, name).split())


def _choices(row: Mapping[str, Any], names: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the choices of a question: of several columns, or of a list in one."""
    if names is None:
        return ()
    if len(names) == 1 and not is_template(names[0]):
        (name,) = names
        value = _value(row, name)
        if not isinstance(value, list):
            raise _UnusableRow(f"field {name!r} is not a list of choices")
        found = tuple(_text_or_number(element, name) for element in value)
    else:
        found = tuple(_extra(row, name, _text_or_number, _spaced) for name in names)
    if any(not choice.strip() for choice in found):
        raise _UnusableRow("a choice is empty")
    return found


# ShareGPT's names of roles.
_ROLES = {"human": "user", "gpt": "assistant"}


def _messages(row: Mapping[str, Any], name: str | None) -> tuple[tuple[str, str], ...]:
    """Returns role and content of each message; the roles' names are OpenAI's."""
    if name is None:
        return ()
    value = _value(row, name)
    if not isinstance(value, list) or not value:
        raise _UnusableRow(f"field {name!r} is not a list of messages")
    return tuple(_message(message, name) for message in value)


def _message(message: Any, name: str) -> tuple[str, str]:
    fields = message if isinstance(message, Mapping) else {}
    role = fields.get("role", fields.get("from"))
    content = fields.get("content", fields.get("value"))
    if not isinstance(role, str) or not role:
        raise _UnusableRow(f"a message of {name!r} has no role")
    if isinstance(content, list):  # of parts, in OpenAI's newer form
        if not all(isinstance(p, Mapping) and "text" in p for p in content):
            raise _UnusableRow(f"a message of {name!r} has a part that is not text")
        content = "".join(_text(part["text"], name) for part in content)
    if content is None:
        raise _UnusableRow(f"a message of {name!r} has no content")
    return _ROLES.get(role, role), _text(content, name)


def _text_or_number(value: Any, name: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise _UnusableRow(f"field {name!r} is not a finite number")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return _text(value, name)


def _text(value: Any, name: str) -> str:
    try:
        if isinstance(value, bytes):
            return value.decode("utf-8")
        if isinstance(value, str):
            value.encode("utf-8")
            return value
    except UnicodeDecodeError:
        raise _UnusableRow(f"field {name!r} is not UTF-8") from None
    except UnicodeEncodeError:
        raise _UnusableRow(f"field {name!r} contains a lone surrogate") from None
    raise _UnusableRow(f"field {name!r} is not text")
