"""Reads the vocabulary size of a tokenizer from its files.

This module only counts tokens; the tokenizer's files are validated by the stages that
use them.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.tokenizer import PretrainedConfig, TokenizerConfig

_SENTENCE_PIECE = (".model", ".spm")
_FILES = ("tokenizer.json", "vocab.json", "encoder.json", "vocab.txt")
_DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError),
    RecursionError,
)
_REMEDY = "Say how many with --vocabulary-size"


def count_pieces(tokenizer: TokenizerConfig) -> int:
    """Returns the vocabulary size of a tokenizer.

    Args:
        tokenizer: The `tokenizer` section of a run. If the tokenizer is still to be
            trained, the size is read from the key `vocabulary_size`.

    Raises:
        ConfigError: There is no file to read the size from.
        ArtifactError: A file is damaged.

    Example:
    >>> count_pieces(PretrainedConfig(path="no/such/folder"))
    Traceback (most recent call last):
    ConfigError: tokenizer.path: no/such/folder: there is no such...
    """
    if not isinstance(tokenizer, PretrainedConfig):
        return tokenizer.vocabulary_size
    path = Path(tokenizer.path)
    if not path.exists():
        raise ConfigError(
            f"tokenizer.path: {path}: there is no such file or folder to count the "
            f"vocabulary in. {_REMEDY}"
        )
    file = _file_in(path) if path.is_dir() else path
    try:
        return _count(file) + tokenizer.num_sentinels
    except _DAMAGE as error:
        raise ArtifactError(
            f"{file}: cannot count the pieces ({type(error).__name__}: {error}): the "
            f"file is damaged or of another kind. {_REMEDY}"
        ) from error


def _file_in(folder: Path) -> Path:
    """Finds the vocabulary file of a folder, by the same rules as `transbeam data`."""
    models = sorted(f for f in folder.iterdir() if f.suffix in _SENTENCE_PIECE)
    candidates = [
        folder / "tokenizer.yaml",
        folder / "data/tokenizer/tokenizer.yaml",
        *models,
        *(folder / name for name in _FILES),
    ]
    for file in candidates:
        if file.is_file():
            return file
    raise ConfigError(f"tokenizer.path: {folder}: contains no tokenizer. {_REMEDY}")


def _count(file: Path) -> int:
    content = file.read_bytes()
    if file.suffix in _SENTENCE_PIECE:
        return _count_sentence_pieces(content)
    if file.suffix == ".yaml":
        return int(yaml.safe_load(content)["vocabulary_size"])
    if file.name in ("merges.txt", "vocab.bpe"):
        other = {"merges.txt": "vocab.json", "vocab.bpe": "encoder.json"}[file.name]
        return _count(file.with_name(other))
    if file.suffix == ".txt":
        return max(_count_lines(content), 1 + _last_added(file.parent))
    value: dict[str, Any] = json.loads(content)
    if file.name in ("vocab.json", "encoder.json"):
        return max(len(value), 1 + _last_added(file.parent))
    # Added pieces may be in the vocabulary too, or have ids after it.
    added = [piece["id"] for piece in value.get("added_tokens", [])]
    return 1 + max([*value["model"]["vocab"].values(), *added])


def _count_lines(content: bytes) -> int:
    r"""Counts the tokens in a `vocab.txt`, for any line endings.

    Example:
    >>> [_count_lines(text) for text in (b"a\n\nb", b"a\r\n\r\nb\r\n\r\n", b"a\r\rb\r")]
    [3, 3, 3]
    """
    end = b"\n" if b"\n" in content else b"\r"
    return content.rstrip(b"\r\n").count(end) + 1


def _last_added(folder: Path) -> int:
    """Returns the largest id of a vocabulary's added tokens; -1 if there are none."""
    ids: list[int] = [-1]
    added, settings = folder / "added_tokens.json", folder / "tokenizer_config.json"
    if added.is_file():
        ids += json.loads(added.read_bytes()).values()
    if settings.is_file():
        decoder = json.loads(settings.read_bytes()).get("added_tokens_decoder") or {}
        ids += map(int, decoder)
    return max(ids)


def _count_sentence_pieces(proto: bytes) -> int:
    """Counts the pieces (field 1) in a serialized SentencePiece `ModelProto`.

    A message is a sequence of fields: a number with field and wire type, then the
    value; all top-level fields have wire type 2, a length and bytes.

    Example:
    >>> _count_sentence_pieces(bytes([0x0A, 2, 0, 0, 0x0A, 1, 0, 0x12, 1, 0]))
    2
    """
    place, pieces = 0, 0
    while place < len(proto):
        tag, place = _varint(proto, place)
        size, place = _varint(proto, place)
        if tag & 7 != 2 or place + size > len(proto):
            raise ValueError(f"no ModelProto: byte {place}")
        pieces += tag >> 3 == 1
        place += size
    return pieces


def _varint(proto: bytes, place: int) -> tuple[int, int]:
    """Reads a little-endian base-128 varint; returns it and the offset after it."""
    number = shift = 0
    while True:
        byte = proto[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
