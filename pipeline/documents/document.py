"""A document: the unit that is cleaned, split and packed, with its provenance."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")


class Document(NamedTuple):
    """A text or image with its annotations and its source.

    A source sets the fields that it has; an objective requires some of them.

    Attributes:
        text: The text itself, valid Unicode; the context of a question; the words of
            a tagged sentence with a space between them.
        source: The file's name within the corpus.
        offset: Its start in the source: a byte offset, a line or a row, depending on
            the kind of source.
        second_text: The second text of a pair; the question about `text`.
        target_text: The target of a sequence-to-sequence model.
        label: The name of the class; or the target of a regression, as text.
        words: A tagged sentence's words.
        tags: One tag per word.
        answers: Character offset in `text` and text of each answer.
        image: Pixels in row-major order, one byte per channel.
        image_shape: Height, width, channels.
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

    @property
    def size(self) -> int:
        """The approximate size in bytes: a character of text counts as one."""
        texts = self.text, self.second_text, self.target_text
        return sum(map(len, texts)) + len(self.image)

    def with_text(self, text: str) -> "Document":
        """Returns a copy with another text; `_replace` takes twice as long.

        Example:
        >>> Document("a ", "f.txt", 3, label="x").with_text("a")
        Document(text='a', source='f.txt', offset=3, ..., label='x', ...)
        """
        return Document(text, *self[1:])


@dataclass(frozen=True, slots=True)
class Rejected:
    """Input that could not be read as a document, to be quarantined.

    Attributes:
        reason: The reason in a few words; rejects are counted by it.
        source: The file's name within the corpus.
        offset: As in `Document`.
        excerpt: The first characters, made printable.
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


@dataclass(frozen=True, slots=True)
class Filtered:
    """Valid input that a reader leaves out by a rule.

    Attributes:
        reason: The rule in a few words; filtered documents are counted by it.
        source: The file's name within the corpus.
        offset: As in `Document`.
        size: The approximate size of the document in bytes.
    """

    reason: str
    source: str
    offset: int
    size: int = field(default=0, compare=False)


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
    """Computes a 64-bit hash of a document's inputs; of a text alone its hash.

    Example:
    >>> input_key(b"yes", b"", b"") == document_hash("yes")
    True
    """
    if not second_text and not image:
        return _hash(text)
    return _hash(b"\0".join((text, second_text, image)))


def document_key(document: Document) -> int:
    """Computes a 64-bit hash of a document's content, independent of its source.

    For a document that consists of a text alone it is the text's `document_hash`.

    Example:
    >>> a = Document("yes", "a.txt", 0)
    >>> b = Document("yes", "b.csv", 7, label="positive")
    >>> document_key(a) == document_hash("yes") != document_key(b)
    True
    """
    text, _, _, *rest, image, image_shape = document
    if not any(rest) and not image:
        return document_hash(text)
    told = json.dumps([text, *rest, image_shape], ensure_ascii=False).encode("utf-8")
    return _hash(told + image)
