"""Summarizes the reading of a corpus: unread bytes, notes, encodings, dropped text.

All jobs that read a source use this module.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.data import DataConfig
from transbeam.pipeline.accounting.byte_accounting import (
    UnreadFile,
    check_complete,
    named,
    unread_files,
    unread_json,
)
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.sources.files.reading_report import (
    describe_encodings,
    detected_encodings,
    dropped_in_sentences,
    noted,
)

# The maximum number of kinds of dropped text in a message.
_KINDS = 5


def sum_reading(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums the unread bytes, notes, detected encodings and dropped text of readers.

    Args:
        states: The markers of a corpus's work units.
    """
    states = list(states)
    return {
        "unread": unread_json(unread_files(states)),
        "noted": noted(states),
        "encodings": detected_encodings(states),
        "dropped_in_sentences": dropped_in_sentences(states),
    }


def check_reading(data: DataConfig, reading: Mapping[str, Any]) -> None:
    """Raises an error for an incomplete file unless the configuration allows it.

    Args:
        data: The `data` section of the configuration.
        reading: The result of `sum_reading`.

    Raises:
        DataError: A file is incomplete, and the configuration does not accept
            incomplete files.
    """
    if not data.accept_incomplete_files:
        check_complete(_unread(reading))


def not_read(reading: Mapping[str, Any]) -> str:
    """Returns a list of incompletely read files to append to a summary; may be empty.

    Example:
    >>> not_read({"unread": {"bytes": 0, "files": []}})
    ''
    >>> file = {"name": "a.parquet", "size": 2_000, "unread": 1_500}
    >>> not_read({"unread": {"bytes": 1_500, "files": [file]}})
    '; not read: 1,500 of 2,000 bytes of a.parquet'
    """
    files = unread_named(reading)
    return f"; not read: {files}" if files else ""


def unread_named(reading: Mapping[str, Any]) -> str:
    """Describes the incompletely read files; empty if there are no such files."""
    return named(_unread(reading))


def _unread(reading: Mapping[str, Any]) -> list[UnreadFile]:
    # Results of earlier versions lack the key.
    return [UnreadFile(**row) for row in reading.get("unread", {}).get("files", ())]


def show_reading(console: Console, reading: Mapping[str, Any]) -> None:
    """Prints notes, encodings and dropped text, for a job without a dataset card.

    Args:
        console: Prints them.
        reading: The result of `sum_reading`.
    """
    if found := reading.get("encodings"):
        console.say(f"detected encodings: {describe_encodings(found)}")
    if dropped := reading.get("dropped_in_sentences"):
        named = list_reasons(dict(list(dropped.items())[:_KINDS]))
        rest = ", …" if len(dropped) > _KINDS else ""
        console.say(
            f"{sum(dropped.values()):,} templates and formulas dropped inside "
            f"sentences: {named}{rest}"
        )
    for sentence in sentences_of_notes(reading):
        console.warn(sentence)


def sentences_of_notes(reading: Mapping[str, Any]) -> Iterator[str]:
    """Yields a sentence for each note of the readers about a file."""
    for note in reading.get("noted", ()):
        times = f" ({note['times']:,} times)" if note["times"] > 1 else ""
        yield f"{note['source']}: {note['kind']}{times}: {note['detail']}"
