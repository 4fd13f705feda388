"""Which documents are worth learning from. Pure functions on plain text."""

from configs.cleaning import CleaningConfig
from pipeline.documents import Document, Rejected


def clean_text(text: str) -> str:
    r"""Line ends as `\n`, no byte order mark, no blank edges.

    Example:
    >>> clean_text("\ufeff one\r\ntwo \n")
    'one\ntwo'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\ufeff \t\n")


def filter_reason(text: str, config: CleaningConfig) -> str | None:
    """Why a cleaned text is left out, or None for one to keep.

    Example:
    >>> filter_reason("", CleaningConfig())
    'empty'
    >>> filter_reason("ok", CleaningConfig(minimum_characters=10))
    'shorter than 10 characters'
    """
    if not text:
        return "empty"
    if len(text) < config.minimum_characters:
        return f"shorter than {config.minimum_characters} characters"
    return None


def quarantine_reason(text: str, config: CleaningConfig) -> str | None:
    """Why a text must be looked at by a person, or None.

    Example:
    >>> quarantine_reason("a" + chr(0), CleaningConfig())
    'contains NUL, so it is binary'
    """
    if "\0" in text:
        return "contains NUL, so it is binary"
    if len(text) > config.maximum_characters:
        return f"longer than {config.maximum_characters} characters"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "contains a lone surrogate, which has no UTF-8 form"
    return None


def rejected(document: Document, reason: str) -> Rejected:
    """The quarantine entry of a document that was read but cannot be kept."""
    return Rejected(reason, document.source, document.offset, excerpt(document.text))


def excerpt(raw: str | bytes) -> str:
    r"""The beginning of a record, printable whatever it holds.

    Example:
    >>> excerpt(b"caf\xe9")
    'caf\\xe9'
    """
    if isinstance(raw, bytes):
        return raw[:120].decode("utf-8", "backslashreplace")
    return raw[:120].encode("utf-8", "backslashreplace").decode("utf-8")
