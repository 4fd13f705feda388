"""Reads JSON: an object per line, an array of objects, or objects on several lines.

    {"text": "one"}            [{"text": "one"},          {
    {"text": "two"}             {"text": "two"}]            "text": "one"
                                                          }
                                                          {
                                                            "text": "two"
                                                          }

A file with an object per line can be split anywhere. Blank lines are skipped. If an
object has duplicate fields, the last one is used. If the last line ends within its
object, the file is truncated by an unknown amount. Files in the other two formats are
read value by value, so that a file need not fit into memory. An invalid value is
rejected, and reading continues at the next line with the same indentation as the first
line of the value; if no such line follows, the rest of the file is rejected, too. The
offset of a document is the offset of the first byte of its JSON value.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Item,
    Rejected,
    SourceFile,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.decoding.text_decoding import Line, find_codec, lines
from transbeam.pipeline.sources.files.file_access import open_beginning, open_file
from transbeam.pipeline.sources.readers.table_rows import row_document

_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 18
_BETWEEN = re.compile(r"[\s,\[\]]*")
_ARRAY = re.compile(r"\s*\[\s*[{\]]")
_OPEN_LINE = re.compile(r"\s*\{[ \t\r]*\n")
# Errors closer than this to the end of the buffer may vanish with more input.
_LONGEST_WORD = 16
_PART_OF_A_WORD = re.compile(r"\s*[-+.\w]*")
_LONGEST_INDENT = 80
_DECODER = json.JSONDecoder()


class Value(NamedTuple):
    """A JSON value, or a `Rejected` if it is invalid, and its byte offset."""

    offset: int
    value: Any


def has_values(file: SourceFile, encoding: str) -> bool:
    """Returns whether a file begins with an array of objects or a multi-line object.

    False for a file that cannot be opened or decoded; the error is reported when the
    file is read.
    """
    try:
        codec = find_codec(file, encoding)
        with open_beginning(file) as stream:
            sample = stream.read1(_SAMPLE_BYTES)  # pyright: ignore
    except (BrokenFile, OSError):
        return False
    text = sample.decode(codec, "replace").removeprefix("\ufeff").lstrip()
    if _ARRAY.match(text) or _OPEN_LINE.match(text):
        return True
    if not text.startswith("{"):
        return False
    try:
        end = _DECODER.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def ends_early(error: json.JSONDecodeError) -> bool:
    """Returns whether the error means that the text ends within a JSON value."""
    is_open = error.msg.startswith("Unterminated string")
    return is_open or bool(_PART_OF_A_WORD.fullmatch(error.doc, error.pos))


def read_values(file: SourceFile, encoding: str) -> Iterator[Value]:
    """Yields all values of a file in order, including values that are not objects.

    Raises:
        BrokenFile: The file is truncated, damaged, or invalid in its encoding; also
            raised after the last object if the array is not closed.
    """
    with open_file(file) as stream:
        yield from _Reader(stream, find_codec(file, encoding), file.name).values()


class _Reader:
    """Reads JSON values incrementally.

    Args:
        stream: The file, at its start.
        codec: The encoding of the file.
        name: The file's name in quarantine entries.
    """

    def __init__(self, stream: BinaryIO, codec: str, name: str) -> None:
        self._stream = stream
        self._codec = "utf-8" if codecs.lookup(codec).name == "utf-8-sig" else codec
        self._name = name
        self._decoder = codecs.getincrementaldecoder(self._codec)("surrogateescape")
        self._text = ""
        self._place = 0  # start of the next value, or of the text before it
        self._offset = 0  # the same as a byte offset in the file
        self._indent = ""  # the text before it on its line
        self._last = ""  # the last skipped character except white space
        self._is_whole = False  # whether the text reaches the end of the file

    def values(self) -> Iterator[Value]:
        self._read_on()
        if self._text.startswith("\ufeff"):
            self._go_to(1)
            self._indent = ""
        is_array = self._text[self._place :].lstrip().startswith("[")
        while self._skip_between():
            yield self._value()
        if is_array and self._last != "]":
            what = "the array has no ] at its end"
            raise BrokenFile("truncated JSON", what, self._offset, doubtful=True)

    def _read_on(self) -> None:
        """Reads at least as many bytes as are unparsed, so that time is linear."""
        self._text, self._place = self._text[self._place :], 0
        size = max(len(self._text), _BLOCK_BYTES)
        raw = self._stream.read(size)
        self._is_whole = len(raw) < size
        try:
            self._text += self._decoder.decode(raw, self._is_whole)
        except UnicodeDecodeError as error:
            shown = excerpt(error.object[error.start :])
            reason = f"not {self._codec.upper()}"
            raise BrokenFile(reason, shown, self._offset) from error

    def _go_to(self, place: int) -> bool:
        """Advances to index `place`; returns False if a byte in between is invalid."""
        passed = self._text[self._place : place]
        _, newline, line = passed.rpartition("\n")
        indent = line if newline else self._indent + line
        self._indent = indent[:_LONGEST_INDENT]
        self._place = place
        self._last = passed[-_LONGEST_INDENT:].rstrip()[-1:] or self._last
        try:
            self._offset += len(passed.encode(self._codec))
        except UnicodeEncodeError:
            self._offset += len(passed.encode(self._codec, "surrogateescape"))
            return False
        return True

    def _skip_between(self) -> bool:
        """Advances to the next value; returns False if there is none."""
        while True:
            between = _BETWEEN.match(self._text, self._place)
            self._go_to(between.end() if between else self._place)
            if self._place < len(self._text) or self._is_whole:
                return self._place < len(self._text)
            self._read_on()

    def _value(self) -> Value:
        offset = self._offset
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
                # A number may continue in the unread text.
                if end < len(self._text) or self._is_whole:
                    start = self._place
                    if not self._go_to(end):
                        reason = f"not {self._codec.upper()}"
                        raw = self._text[start:end]
                        value = Rejected.from_content(reason, self._name, offset, raw)
                    return Value(offset, value)
            except json.JSONDecodeError as error:
                may_go_on = error.pos > len(
                    self._text
                ) - _LONGEST_WORD or error.msg.startswith("Unterminated string")
                if self._is_whole or not may_go_on:
                    is_cut = self._is_whole and ends_early(error)
                    reason = "truncated JSON" if is_cut else f"not JSON: {error.msg}"
                    return self._broken(reason, error.pos, doubtful=is_cut)
            except (ValueError, RecursionError):
                reason = "JSON with a number or a nesting beyond all bounds"
                return self._broken(reason, self._place)
            self._read_on()

    def _broken(self, reason: str, place: int, *, doubtful: bool = False) -> Value:
        """Returns an invalid value's quarantine entry; advances to the next value."""
        offset = self._offset
        shown = excerpt(self._text[self._place :])
        next_line = re.compile(rf"\n{re.escape(self._indent)}(?=\{{)")
        known = not self._indent.strip()
        self._go_to(place)
        while True:
            found = next_line.search(self._text, self._place) if known else None
            if found or self._is_whole:
                self._go_to(found.end() if found else len(self._text))
                break
            # The start of a line may be cut at the end of the text.
            self._go_to(max(self._place, self._text.rfind("\n")))
            self._read_on()
        size = self._offset - offset
        entry = Rejected(reason, self._name, offset, shown, size, doubtful=doubtful)
        return Value(offset, entry)


def is_splittable(file: SourceFile, source: JsonlSourceConfig) -> bool:
    """Returns whether each line is an object, so the file can be split anywhere."""
    return not has_values(file, source.encoding)


def read(span: Span, source: JsonlSourceConfig) -> Iterator[Item]:
    """Yields a document per line that begins in a span, or per object of the file."""
    name = span.file.name
    for offset, row in _rows(span, source):
        if isinstance(row, Rejected):
            yield row
        elif isinstance(row, dict):
            yield row_document(row, source.columns, name, offset)
        else:
            text = json.dumps(row, ensure_ascii=False)
            yield Rejected.from_content("not a JSON object", name, offset, text)


def _rows(span: Span, source: JsonlSourceConfig) -> Iterator[Value]:
    if span.start == 0 and has_values(span.file, source.encoding):
        yield from read_values(span.file, source.encoding)
        return
    for line in lines(span, source.encoding):
        if line.rejected or not line.text.isspace():
            yield Value(line.offset, line.rejected or _parsed(line, span.file.name))


def _parsed(line: Line, name: str) -> Any:
    is_cut = False
    try:
        return json.loads(line.content)
    except json.JSONDecodeError as error:
        is_cut = line.is_open and ends_early(error)
        reason = "truncated JSON" if is_cut else f"not JSON: {error.msg}"
    except (ValueError, RecursionError):
        reason = "JSON with a number or a nesting beyond all bounds"
    return Rejected.from_content(reason, name, line.offset, line.text, doubtful=is_cut)
