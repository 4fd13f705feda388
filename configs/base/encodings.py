"""Checks of the key `encoding`, the character encoding of text files."""

import codecs

from transbeam.configs.base.errors import ConfigError

DETECT = "detect"

# Stateful encodings: the first line determines how all others are decoded.
_NOT_BY_LINE = ("iso2022_kr",)
# Newline bytes with which lines can be split before decoding.
_LINE_ENDS = (b"\n", b"\n\0", b"\0\n", b"\n\0\0\0", b"\0\0\0\n")


def check_encoding(encoding: str) -> None:
    """Checks that a name is a known encoding of text files.

    Raises:
        ConfigError: Python has no such codec, or the codec is not for text files.

    Example:
    >>> check_encoding("latin-1")
    >>> check_encoding("utf8mb4")
    Traceback (most recent call last):
    ConfigError: encoding='utf8mb4' is no encoding Python knows. ...
    """
    if encoding == DETECT:
        return
    try:
        newline = line_end(encoding)
        # The codecs of domain names do not support the error handler "replace".
        newline.decode(encoding, "replace")
        known = codecs.lookup(encoding).name not in _NOT_BY_LINE
        usable = known and newline in _LINE_ENDS
    except (LookupError, ValueError):
        usable = False
    if not usable:
        raise ConfigError(
            f"encoding={encoding!r} is no encoding Python knows for files of lines. "
            f"Write the name of a codec, such as utf-8, latin-1, cp1252 or utf-16, "
            f"or {DETECT!r}"
        )


def line_end(encoding: str) -> bytes:
    r"""The bytes of a newline, without a byte order mark.

    Example:
    >>> line_end("latin-1"), line_end("utf-16-be")
    (b'\n', b'\x00\n')
    """
    # Encoded alone, the newline would be preceded by the byte order mark of `utf-16`.
    return "a\n".encode(encoding)[len("a".encode(encoding)) :]
