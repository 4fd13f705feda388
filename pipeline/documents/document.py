"""A document: what is cleaned, split and packed, and never torn from its source."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")


class Document(NamedTuple):
    """A text, what goes with it, and where it came from.

    A source fills what it has; an objective says what it needs.

    Attributes:
        text: The text itself, valid Unicode; the context of a question; the words of
            a tagged sentence with a space between them.
        source: The file's name within the corpus.
        offset: Where in the source it starts: a byte offset, a line or a row, as the
            kind of source can tell.
        second_text: The other half of a pair; the question about `text`.
        target_text: What a sequence-to-sequence model is to answer.
        label: The name of the class; or the number that is right, as text.
        words: A tagged sentence's words.
        tags: One for each word.
        answers: Character offset in `text` and wording of each answer.
        image: Pixels in row order, one byte a channel.
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
        """About how many bytes it is: a character of text counts as one."""
        texts = self.text, self.second_text, self.target_text
        return sum(map(len, texts)) + len(self.image)

    def with_text(self, text: str) -> "Document":
        """The same with another text; `_replace` takes twice as long.

        Example:
        >>> Document("a ", "f.txt", 3, label="x").with_text("a")
        Document(text='a', source='f.txt', offset=3, ..., label='x', ...)
        """
        return Document(text, *self[1:])


@dataclass(frozen=True, slots=True)
class Rejected:
    """Input that could not become a document, on its way to quarantine.

    Attributes:
        reason: Why, in a few words; rejects are counted by it.
        source: The file's name within the corpus.
        offset: As in `Document`.
        excerpt: The first characters, made printable.
        size: Bytes it would have been as a document, about.
        unread: Bytes of the source that could not be read at all.
        doubtful: Whether more of the file may be lost, or wrong, than it can tell.
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
    """Input that a reader leaves out by rule, undamaged as it is.

    Attributes:
        reason: The rule, in a few words; what is left out is counted by it.
        source: The file's name within the corpus.
        offset: As in `Document`.
        size: Bytes it would have been as a document, about.
    """

    reason: str
    source: str
    offset: int
    size: int = field(default=0, compare=False)


def document_hash(text: str) -> int:
    """64 bits that identify a text wherever and whenever it is met.

    Example:
    >>> hex(document_hash("the same text"))
    '0x6a3c1141f284263'
    """
    return _hash(text.encode("utf-8"))


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def input_key(text: bytes, second_text: bytes, image: bytes) -> int:
    """64 bits that identify what a document asks: of a text alone its hash.

    Example:
    >>> input_key(b"yes", b"", b"") == document_hash("yes")
    True
    """
    if not second_text and not image:
        return _hash(text)
    return _hash(b"\0".join((text, second_text, image)))


def document_key(document: Document) -> int:
    """64 bits that identify a document by all it says, wherever it was found.

    For a document that is nothing but a text it is that text's `document_hash`.

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
