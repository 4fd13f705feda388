"""Reads JSON files whose content is checked when it is taken out."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from transbeam.configs.base.errors import ArtifactError

# A manifest of a large corpus has some megabytes.
_MOST_BYTES = 2**26
# Of a single text that the page shows, in characters.
_LONGEST = 2000


class JsonFields:
    """A JSON object of a file.

    Every method raises `ArtifactError`, which names the file and the key, if the value
    is not of the expected type.

    Args:
        values: The object.
        where: Its place in the file, for error messages.

    Example:
    >>> fields = JsonFields({"name": "a", "loss": float("nan"), "steps": 3}, "x.json")
    >>> fields.text("name"), fields.number("loss"), fields.number("steps")
    ('a', None, 3)
    >>> fields.text("steps")
    Traceback (most recent call last):
    transbeam.configs.base.errors.ArtifactError: x.json: 'steps' is no text
    """

    def __init__(self, values: Any, where: str):
        if not isinstance(values, dict):
            raise ArtifactError(f"{where}: is no JSON object")
        self._values = cast("dict[str, Any]", values)
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def is_object(self, name: str) -> bool:
        """Returns whether a value is an object."""
        return isinstance(self._values.get(name), dict)

    def names(self) -> list[str]:
        """Returns the keys in the order of the file."""
        return list(self._values)

    def text(self, name: str, otherwise: str | None = None) -> str:
        """Returns a text, shortened if it is very long.

        Args:
            name: The key.
            otherwise: The result if there is no such key; if left out, that is an
                error.
        """
        value = self._values.get(name, otherwise)
        if not isinstance(value, str):
            raise self.error(name, "no text")
        return shorten(value)

    def number(self, name: str) -> float | None:
        """Returns a number; None if it is missing, null or not finite."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, "no number")
        return value if math.isfinite(value) else None

    def flag(self, name: str) -> bool:
        """Returns a boolean; False if it is missing."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise self.error(name, "neither true nor false")
        return value

    def fields(self, name: str) -> "JsonFields":
        """Returns an object; an empty one if it is missing."""
        return JsonFields(self._values.get(name) or {}, f"{self._where}: {name}")

    def items(self, name: str) -> list[Any]:
        """Returns an array of any values; an empty one if it is missing."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.error(name, "no JSON array")
        return cast("list[Any]", value or [])

    def objects(self, name: str) -> list["JsonFields"]:
        """Returns an array of objects; an empty one if it is missing."""
        return [
            JsonFields(item, f"{self._where}: {name}[{place}]")
            for place, item in enumerate(self.items(name))
        ]

    def texts(self, name: str) -> list[str]:
        """Returns an array of texts; an empty one if it is missing."""
        found = self.items(name)
        if not all(isinstance(item, str) for item in found):
            raise self.error(name, "no array of texts")
        return [shorten(item) for item in found]

    def counts(self, name: str) -> list[int]:
        """Returns an array of counts; an empty one if it is missing."""
        found = self.items(name)
        if not all(type(item) is int and item >= 0 for item in found):
            raise self.error(name, "no array of counts")
        return found

    def count_rows(self, name: str) -> list[list[int]]:
        """Returns an array of arrays of counts; an empty one if it is missing."""
        return [
            JsonFields({"": row}, f"{self._where}: {name}[{place}]").counts("")
            for place, row in enumerate(self.items(name))
        ]

    def numbers(self, name: str) -> dict[str, float]:
        """Returns an object of numbers, without those that are not finite."""
        of = self.fields(name)
        found = {key: of.number(key) for key in of.names()}
        return {key: value for key, value in found.items() if value is not None}

    def error(self, name: str, what: str) -> ArtifactError:
        """Returns an error that a value is not what is expected, such as "no text"."""
        return ArtifactError(f"{self._where}: {name!r} is {what}")


def read_fields(path: Path) -> JsonFields:
    """Reads a file with a JSON object.

    Args:
        path: The file.

    Raises:
        ArtifactError: It is missing, larger than 64 MiB, or damaged.
    """
    return JsonFields(_parse(_read(path), str(path)), str(path))


def read_objects(path: Path) -> list[JsonFields]:
    """Reads a file with a JSON array of objects; see `read_fields`."""
    where = str(path)
    found = _parse(_read(path), where)
    return JsonFields({"": found}, where).objects("")


def read_lines(path: Path, most: int) -> Iterator[JsonFields]:
    """Yields the first JSON objects of a file that has one in each line.

    Args:
        path: The file.
        most: The largest number of objects.

    Raises:
        ArtifactError: The file is missing or damaged.
    """
    try:
        with path.open("rb") as stream:
            for number in range(1, most + 1):
                line = stream.readline(_MOST_BYTES)
                if not line:
                    return
                where = f"{path}:{number}"
                yield JsonFields(_parse(line, where), where)
    except OSError as error:
        raise _unreadable(path, error) from None


def shorten(text: str) -> str:
    """Cuts a text that is too long to be shown.

    Example:
    >>> len(shorten("a" * 10_000))
    2001
    """
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Keeps the finite numbers of a JSON object.

    Example:
    >>> finite_numbers({"step": 1, "loss": float("inf"), "note": "a", "flag": True})
    {'step': 1}
    """
    return {
        name: value
        for name, value in values.items()
        if type(value) in (int, float) and math.isfinite(value)
    }


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ArtifactError(
                f"{path}: has {path.stat().st_size:,} bytes; the page reads files of "
                f"up to {_MOST_BYTES:,}"
            )
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> ArtifactError:
    return ArtifactError(f"{path}: cannot be read: {error.strerror}")


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{where}: is damaged, or not yet whole: {error}") from None
