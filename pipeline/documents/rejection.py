"""Quarantine entries of documents that cannot be used."""

import re

from transbeam.pipeline.documents.document import Document, Rejected

# Control characters, some of which a terminal obeys.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def rejected(document: Document, reason: str) -> Rejected:
    """The quarantine entry of a document that was read but cannot be kept."""
    shown = excerpt(document.text)
    return Rejected(reason, document.source, document.offset, shown, document.size)


def excerpt(raw: str | bytes) -> str:
    r"""The beginning of a record, printable whatever it holds.

    Example:
    >>> excerpt(b"caf\xe9\0")
    'caf\\xe9\\x00'
    """
    if isinstance(raw, str):
        raw = raw[:120].encode("utf-8", "backslashreplace")
    text = raw[:480].decode("utf-8", "backslashreplace")[:120]
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
