"""Reads tokenizer files, with actionable errors."""

import json
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError

REMEDY = "Use the file as it was written"

# Some editors prepend it.
_BYTE_ORDER_MARK = "\ufeff"


def read_bytes(path: Path, remedy: str = REMEDY) -> bytes:
    """Reads a file.

    Raises:
        ArtifactError: The file cannot be read, or is a Git LFS pointer.
    """
    refuse_lfs_pointer(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read ({error.strerror}). {remedy}"
        ) from error


def decode_utf8(content: bytes, where: str) -> str:
    r"""Decodes the content of a file.

    Raises:
        ArtifactError: The content is not UTF-8.

    Example:
    >>> decode_utf8(b"caf\xe9", "vocab.txt")
    Traceback (most recent call last):
    ArtifactError: vocab.txt: byte 3 is not UTF-8...
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(
            f"{where}: byte {error.start} is not UTF-8: the file is damaged or of "
            f"another kind. {REMEDY}"
        ) from error


def split_lines(content: bytes, where: str) -> list[str]:
    r"""Splits a vocabulary file into lines, with any kind of line ends.

    Lines end with LF or CR LF; in a file without any LF, they end with CR. Blank lines
    at the end are dropped; other blank lines are kept, as line numbers are ids.

    `str.splitlines` is not used, as it also splits at U+2028, U+0085 and other
    characters that a piece may contain.

    Raises:
        ArtifactError: The file is not UTF-8.

    Example:
    >>> split_lines(b"\xef\xbb\xbf[PAD]\r\n\r\n[UNK]\r\n\r\n", "vocab.txt")
    ['[PAD]', '', '[UNK]']
    """
    text = decode_utf8(content, where).removeprefix(_BYTE_ORDER_MARK)
    lines = text.split("\n" if "\n" in text else "\r")
    return "\n".join(line.rstrip("\r") for line in lines).rstrip("\n").split("\n")


def parse_json_object(content: bytes, where: str) -> dict[str, Any]:
    """Parses the JSON object of a file.

    Raises:
        ArtifactError: The content is not JSON, or not an object.

    Example:
    >>> parse_json_object(b'{"a": 0', "vocab.json")
    Traceback (most recent call last):
    ArtifactError: vocab.json: is not JSON (Expecting ',' delimiter...
    """
    try:
        value = json.loads(decode_utf8(content, where).removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{where}: is not JSON ({error}): the file is cut short or of another "
            f"kind. {REMEDY}"
        ) from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{where}: expected a JSON object. {REMEDY}")
    return value


def sort_pieces(ids: dict[str, Any], where: str) -> tuple[str, ...]:
    """Returns the pieces of a mapping from piece to id, in the order of ids.

    Raises:
        ArtifactError: The ids are not 0, 1, 2 and so on.

    Example:
    >>> sort_pieces({"b": 1, "a": 0}, "vocab.json")
    ('a', 'b')
    >>> sort_pieces({"b": 1, "a": 2}, "vocab.json")
    Traceback (most recent call last):
    ArtifactError: vocab.json: the 2 pieces do not have the ids 0 to 1...
    """
    if any(type(i) is not int for i in ids.values()) or sorted(ids.values()) != list(
        range(len(ids))
    ):
        raise ArtifactError(
            f"{where}: the {len(ids)} pieces do not have the ids 0 to {len(ids) - 1}. "
            f"{REMEDY}"
        )
    return tuple(sorted(ids, key=ids.__getitem__))
