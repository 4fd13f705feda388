"""Documents, their source files, and records of rejected, filtered and unread input."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")
# Control characters, some of which affect terminals.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class SourceFile:
    """A file of the corpus, with the properties it had when the corpus was listed.

    Attributes:
        name: The file's name within the corpus, the same on every machine.
        path: The file's path on this machine.
        size: The file's size in bytes.
        modified: The modification time in nanoseconds.
        part: Index of the file's source in the corpus; see `corpus_files.list_sources`.
        partner: The file whose lines are aligned with this file's lines, if any.
    """

    name: str
    path: str
    size: int
    modified: int
    part: int = 0
    partner: "SourceFile | None" = None

    @classmethod
    def at(cls, path: Path, name: str) -> "SourceFile":
        status = path.stat()
        return cls(
            # On Linux a name need not be valid UTF-8.
            os.fsencode(name).decode("utf-8", "backslashreplace"),
            str(path.absolute()),  # absolute, as a worker may run in another folder
            status.st_size,
            status.st_mtime_ns,
        )


@dataclass(frozen=True)
class Span:
    """A byte range of a file, from `start` to `end` (excluded)."""

    file: SourceFile
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Document(NamedTuple):
    """A text or image with its annotations and its source.

    A source sets the fields for which it has values; an objective requires some fields.

    Attributes:
        text: The text itself, valid Unicode; the context of a question; the words of
            a tagged sentence with a space between them.
        source: The file's name within the corpus.
        offset: The document's position in the file: a byte offset, a line number or a
            row number, depending on the kind of source.
        second_text: The second text of a pair; the question about `text`.
        target_text: The target of a sequence-to-sequence model.
        label: The name of the class; or the target of a regression, as text.
        words: A tagged sentence's words.
        tags: One tag per word.
        answers: For each answer, its character offset in `text` and its text.
        image: Pixels in row-major order, one byte per channel.
        image_shape: Height, width, channels.
        messages: A conversation: role and content of each message.
        negative_text: A text that is unlike `text`, its hard negative.
        choices: The answers from which a question lets choose.
        references: The texts that a generated text is compared with; empty if it is
            compared with the target.
    """

    text: str
    source: str
    offset: int
    second_text: str = ""
    target_text: str = ""
    label: str = ""
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    answers: tuple[tuple[int, str], ...] = ()
    image: bytes = b""
    image_shape: tuple[int, ...] = ()
    messages: tuple[tuple[str, str], ...] = ()
    negative_text: str = ""
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The approximate size in bytes: a character of text counts as one byte."""
        texts = self.text, self.second_text, self.target_text, self.negative_text
        return sum(map(len, (*texts, *self.choices))) + len(self.image)

    def with_text(self, text: str) -> "Document":
        """Returns a copy with another text, in half the time of `_replace`.

        Example:
        >>> Document("a ", "f.txt", 3, label="x").with_text("a")
        Document(text='a', source='f.txt', offset=3, ..., label='x', ...)
        """
        return Document(text, *self[1:])


@dataclass(frozen=True, slots=True)
class Rejected:
    """Input that could not be read as a document, to be quarantined.

    Attributes:
        reason: The reason in a few words, by which rejected documents are counted.
        source: The file's name within the corpus.
        offset: As in `Document`.
        excerpt: The first characters of the input, in printable form.
        size: The approximate size of the document in bytes.
        unread: Bytes of the source that could not be read at all.
        doubtful: Whether an unknown further amount of the file may be lost or wrong.
    """

    reason: str
    source: str
    offset: int
    excerpt: str
    size: int = field(default=0, compare=False)
    unread: int = 0
    doubtful: bool = False

    @classmethod
    def from_content(
        cls,
        reason: str,
        source: str,
        offset: int,
        content: str | bytes,
        *,
        doubtful: bool = False,
    ) -> "Rejected":
        """Makes a quarantine entry with the excerpt and the size of the content."""
        shown = excerpt(content)
        return cls(reason, source, offset, shown, len(content), doubtful=doubtful)


@dataclass(frozen=True, slots=True)
class Filtered:
    """Valid input that a rule of its reader excludes.

    Attributes:
        reason: The rule in a few words, by which filtered documents are counted.
        source: The file's name within the corpus.
        offset: As in `Document`.
        size: The approximate size of the document in bytes.
    """

    reason: str
    source: str
    offset: int
    size: int = field(default=0, compare=False)


# What a reader yields for each document of a file.
Item = Document | Filtered | Rejected


def document_hash(text: str) -> int:
    """Computes a stable 64-bit hash of a text.

    Example:
    >>> hex(document_hash("the same text"))
    '0x6a3c1141f284263'
    """
    return _hash(text.encode("utf-8"))


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def input_key(text: bytes, second_text: bytes, image: bytes) -> int:
    """Computes a 64-bit hash of a document's inputs; for a text alone, the text's hash.

    Example:
    >>> input_key(b"yes", b"", b"") == document_hash("yes")
    True
    """
    if not second_text and not image:
        return _hash(text)
    return _hash(b"\0".join((text, second_text, image)))


def document_key(document: Document) -> int:
    """Computes a 64-bit hash of a document's content, independent of its source.

    For a document with only a text, the result is the text's `document_hash`.

    Example:
    >>> a = Document("yes", "a.txt", 0)
    >>> b = Document("yes", "b.csv", 7, label="positive")
    >>> document_key(a) == document_hash("yes") != document_key(b)
    True
    """
    text, rest, image, image_shape = document[0], document[3:9], *document[9:11]
    # Newer fields are left out if they are empty, so that documents without them keep
    # their keys. Of equal types they need their names, too.
    newer: list[Any] = [value for value in document[11:13] if value]
    named = zip(("choices", "references"), document[13:], strict=True)
    newer += [(name, value) for name, value in named if value]
    if not any(rest) and not image and not newer:
        return document_hash(text)
    values = [text, *rest, image_shape, *newer]
    return _hash(json.dumps(values, ensure_ascii=False).encode("utf-8") + image)


def rejected(document: Document, reason: str) -> Rejected:
    """Returns the quarantine entry that replaces a rejected document."""
    shown = excerpt(document.text)
    return Rejected(reason, document.source, document.offset, shown, document.size)


def excerpt(raw: str | bytes) -> str:
    r"""Returns the beginning of some content in printable form.

    Example:
    >>> excerpt(b"caf\xe9\0")
    'caf\\xe9\\x00'
    """
    if isinstance(raw, str):
        raw = raw[:120].encode("utf-8", "backslashreplace")
    text = raw[:480].decode("utf-8", "backslashreplace")[:120]
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


@dataclass(frozen=True)
class Damage:
    """A part of a file that could not be read.

    Attributes:
        reason: The reason in a few words, by which damaged parts are counted.
        detail: Further information for messages.
        offset: The position of the damage in the file, as in `Document`.
        unread: The number of unread bytes; None if the whole rest of the file is
            unread.
        doubtful: Whether an unknown further amount of the file may be lost or wrong.
    """

    reason: str
    detail: str = ""
    offset: int = 0
    unread: int | None = None
    doubtful: bool = False


class BrokenFile(Exception):
    """The remainder of a file cannot be read; the documents already read are kept.

    Args:
        reason: The reason; this and the other arguments are the attributes of `Damage`.

    Attributes:
        damage: All parts of the file that could not be read, in order.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        offset: int = 0,
        *,
        unread: int | None = None,
        doubtful: bool = False,
    ) -> None:
        super().__init__(reason, detail, offset)
        self.damage: tuple[Damage, ...] = (
            Damage(reason, detail, offset, unread, doubtful),
        )

    @classmethod
    def from_damage(cls, damage: Sequence[Damage]) -> "BrokenFile":
        """Makes an exception for damaged parts, with the message of the last part."""
        last = damage[-1]
        broken = cls(last.reason, last.detail, last.offset)
        broken.damage = tuple(damage)
        return broken
