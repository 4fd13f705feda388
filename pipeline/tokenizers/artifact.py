"""The folder a tokenizer is kept in: `vocab.txt` and `tokenizer.yaml`.

`vocab.txt` is BERT's format, one piece a line, which other programs read.
`tokenizer.yaml` says how text is normalised and seals the vocabulary by its sha256:
with one piece more or less every id after it would mean something else, and nothing
downstream would notice.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from configs.errors import ArtifactError
from configs.tokenizer import WordPieceConfig
from pipeline.tokenizers.vocabulary import SPECIAL_PIECES, check_vocabulary

if TYPE_CHECKING:
    from pipeline.tokenizers.wordpiece import WordPieceTokenizer

VOCABULARY_FILE = "vocab.txt"
METADATA_FILE = "tokenizer.yaml"

_FORMAT_VERSION = 1
_REMEDY = "Restore the folder as `save_tokenizer` wrote it, or make the tokenizer again"


@dataclass(frozen=True, kw_only=True)
class TokenizerArtifact:
    """What a tokenizer's folder holds, checked.

    Attributes:
        vocabulary: The pieces in the order of their ids.
        lowercase: Whether upper case is folded away.
        strip_accents: Whether combining marks are dropped.
        fingerprint: sha256 in hex of everything the ids depend on.
    """

    vocabulary: tuple[str, ...]
    lowercase: bool
    strip_accents: bool
    fingerprint: str


def save_tokenizer(
    folder: str | Path, vocabulary: Sequence[str], config: WordPieceConfig
) -> None:
    """Writes a tokenizer's folder; what was there under the same names is replaced.

    Args:
        folder: Made if it is not there.
        vocabulary: The pieces in the order of their ids, as `learn_wordpiece` gives
            them.
        config: `lowercase` and `strip_accents` are kept.

    Raises:
        ArtifactError: The vocabulary could not be used (see `check_vocabulary`).

    Example:
    >>> import tempfile
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tokenizer(folder, pieces, WordPieceConfig(lowercase=False))
    ...     read_tokenizer(folder).vocabulary[-1]
    '##b'
    """
    folder = Path(folder)
    check_vocabulary(vocabulary, where=str(folder / VOCABULARY_FILE))
    content = "".join(f"{piece}\n" for piece in vocabulary).encode()
    strip_accents = (
        config.lowercase if config.strip_accents is None else config.strip_accents
    )
    metadata = _metadata(content, vocabulary, config.lowercase, strip_accents)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VOCABULARY_FILE).write_bytes(content)
    text = yaml.safe_dump(metadata, sort_keys=False)
    (folder / METADATA_FILE).write_bytes(text.encode())


def read_tokenizer(folder: str | Path) -> TokenizerArtifact:
    """Reads and checks a tokenizer's folder without TensorFlow.

    Raises:
        ArtifactError: A file is missing, altered, cut short or of another version.
    """
    folder = Path(folder)
    metadata_path = folder / METADATA_FILE
    vocabulary_path = folder / VOCABULARY_FILE
    metadata = _parse_metadata(metadata_path)
    content = _read_bytes(vocabulary_path)
    found = hashlib.sha256(content).hexdigest()
    if found != metadata["vocabulary_sha256"]:
        raise ArtifactError(
            f"{vocabulary_path}: sha256 is {found}, but {METADATA_FILE} expects "
            f"{metadata['vocabulary_sha256']}: the file was altered or cut short. "
            f"{_REMEDY}"
        )
    # Not `splitlines`: it also cuts at U+2028, U+0085 and others a piece may hold.
    vocabulary = tuple(content.decode().split("\n")[:-1])
    check_vocabulary(vocabulary, where=str(vocabulary_path))
    lowercase, strip_accents = metadata["lowercase"], metadata["strip_accents"]
    expected = _metadata(content, vocabulary, lowercase, strip_accents)
    if metadata != expected:
        raise ArtifactError(
            f"{metadata_path}: does not describe {VOCABULARY_FILE}: found "
            f"{_differing(metadata, expected)}, expected "
            f"{_differing(expected, metadata)}. {_REMEDY}"
        )
    canonical = json.dumps(metadata, sort_keys=True).encode()
    return TokenizerArtifact(
        vocabulary=vocabulary,
        lowercase=lowercase,
        strip_accents=strip_accents,
        fingerprint=hashlib.sha256(canonical).hexdigest(),
    )


def load_tokenizer(folder: str | Path) -> "WordPieceTokenizer":
    """Builds the tokenizer of a folder.

    Raises:
        ArtifactError: A file is missing, altered, cut short or of another version.
    """
    from pipeline.tokenizers.wordpiece import WordPieceTokenizer

    artifact = read_tokenizer(folder)
    return WordPieceTokenizer(
        artifact.vocabulary,
        lowercase=artifact.lowercase,
        strip_accents=artifact.strip_accents,
    )


def tokenizer_fingerprint(folder: str | Path) -> str:
    """The sha256, in hex, that later stages compare; the folder is checked first.

    Raises:
        ArtifactError: A file is missing, altered, cut short or of another version.
    """
    return read_tokenizer(folder).fingerprint


def _metadata(
    content: bytes, vocabulary: Sequence[str], lowercase: bool, strip_accents: bool
) -> dict[str, Any]:
    return {
        "format_version": _FORMAT_VERSION,
        "kind": WordPieceConfig.kind,
        "lowercase": lowercase,
        "strip_accents": strip_accents,
        "vocabulary_size": len(vocabulary),
        "special_ids": {piece: vocabulary.index(piece) for piece in SPECIAL_PIECES},
        "vocabulary_sha256": hashlib.sha256(content).hexdigest(),
    }


def _parse_metadata(path: Path) -> dict[str, Any]:
    try:
        metadata = yaml.safe_load(_read_bytes(path))
    except yaml.YAMLError as error:
        raise ArtifactError(f"{path}: is not YAML ({error}). {_REMEDY}") from error
    if not isinstance(metadata, dict):
        raise ArtifactError(f"{path}: is empty or has no keys. {_REMEDY}")
    version = metadata.get("format_version")
    if version != _FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: format_version is {version}, expected {_FORMAT_VERSION}. Use "
            "the version of Transbeam that wrote it, or make the tokenizer again"
        )
    for key in ("lowercase", "strip_accents"):
        if not isinstance(metadata.get(key), bool):
            raise ArtifactError(
                f"{path}: {key} is {metadata.get(key)!r}, expected true or false. "
                f"{_REMEDY}"
            )
    if "vocabulary_sha256" not in metadata:
        raise ArtifactError(f"{path}: vocabulary_sha256 is missing. {_REMEDY}")
    return metadata


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read ({error.strerror}). A tokenizer's folder holds "
            f"{VOCABULARY_FILE} and {METADATA_FILE}. {_REMEDY}"
        ) from error


def _differing(these: dict[str, Any], those: dict[str, Any]) -> dict[str, Any]:
    missing = object()
    return {k: v for k, v in these.items() if those.get(k, missing) != v}
