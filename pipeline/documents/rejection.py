"""Quarantine entries of documents that cannot be used."""

import re

from transbeam.pipeline.documents.document import Document, Rejected

# Control characters, some of which affect terminals.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def rejected(document: Document, reason: str) -> Rejected:
    """Returns the quarantine entry of a document that was read."""
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
