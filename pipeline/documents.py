"""A document: what is cleaned, split and packed, and never torn from its source."""

import hashlib
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")


@dataclass(frozen=True, slots=True)
class Document:
    """A text and where it came from.

    Attributes:
        text: The text itself, valid Unicode.
        source: The file's name within the corpus.
        offset: Where in the source it starts: a byte offset (plain text) or a line
            number (Python).
    """

    text: str
    source: str
    offset: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Input that could not become a document, on its way to quarantine.

    Attributes:
        reason: Why, in a few words; rejects are counted by it.
        source: The file's name within the corpus.
        offset: As in `Document`.
        excerpt: The first characters, made printable.
    """

    reason: str
    source: str
    offset: int
    excerpt: str


def document_hash(text: str) -> int:
    """64 bits that identify a text wherever and whenever it is met.

    Example:
    >>> hex(document_hash("the same text"))
    '0x6a3c1141f284263'
    """
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little"
    )


def split_of(text_hash: int, validation_fraction: float) -> Split:
    """The split of a document: by its text alone, so equal texts never part.

    A document keeps its split as the corpus grows.

    Example:
    >>> split_of(0, 0.05), split_of(2**64 - 1, 0.05)
    ('validation', 'train')
    """
    return "validation" if text_hash < validation_fraction * 2.0**64 else "train"
