"""Reads and writes tokenizer folders: `tokenizer.yaml` and the files that it lists.

The files have formats that other programs can read: BERT's `vocab.txt`, GPT-2's
`vocab.json` and `merges.txt`, SentencePiece's `spiece.model`. `tokenizer.yaml` lists
these files with their sha256, to detect changes: an added or removed piece would change
every id after it, without any error in later stages.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.file_reading import read_bytes
from transbeam.pipeline.tokenizers.base.framing import CHAT_TEMPLATE_FILE, Framing
from transbeam.pipeline.tokenizers.base.interface import SpecialIds, Tokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.files.chat_format import make_chat_format
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import (
    WordPieceModel,
)

METADATA_FILE = "tokenizer.yaml"

_MODELS: dict[str, type[TokenizerModel]] = {
    model.kind: model for model in (WordPieceModel, ByteBPEModel, SentencePieceModel)
}
_FORMAT_VERSION = 2
_REMEDY = "Restore the folder as `save_tokenizer` wrote it, or make the tokenizer again"


@dataclass(frozen=True, kw_only=True)
class TokenizerArtifact:
    """The verified content of a tokenizer folder.

    Attributes:
        model: The vocabulary and the rules of the tokenizer.
        fingerprint: sha256 in hex of everything that the token ids depend on.
    """

    model: TokenizerModel
    fingerprint: str

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The pieces in the order of their ids."""
        return self.model.pieces

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return self.model.special


def save_tokenizer(folder: str | Path, model: TokenizerModel) -> None:
    """Writes a tokenizer folder; existing files of the same names are replaced.

    Args:
        folder: The folder, which is created if it does not exist.
        model: The vocabulary and the rules of the tokenizer, from `learn_model` or
            `import_tokenizer`.

    Raises:
        ArtifactError: The tokenizer cannot be used.

    Example:
    >>> import tempfile
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b")
    >>> model = WordPieceModel(pieces=pieces, lowercase=False, strip_accents=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tokenizer(folder, model)
    ...     read_tokenizer(folder).vocabulary[-1]
    '##b'
    """
    folder = Path(folder)
    model.check(str(folder))
    model.framing.check(model.pieces, str(folder))
    files = {**model.files(), **model.framing.files()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    # Written last, so that a folder with it is complete.
    metadata = _metadata(model, files)
    text = yaml.safe_dump(metadata, sort_keys=False, default_flow_style=None)
    (folder / METADATA_FILE).write_bytes(text.encode())


def read_tokenizer(folder: str | Path) -> TokenizerArtifact:
    """Reads and verifies a tokenizer folder without TensorFlow.

    Raises:
        ArtifactError: A file is missing, modified, truncated or of another version.
    """
    folder = Path(folder)
    path = folder / METADATA_FILE
    metadata = _parse_metadata(path)
    kind = _MODELS[metadata["kind"]]
    _check_options(metadata["options"], kind.option_types, path)
    names = kind.file_names
    if CHAT_TEMPLATE_FILE in metadata["files"]:
        names = (*names, CHAT_TEMPLATE_FILE)
    files = _read_files(folder, names, metadata["files"])
    framing = Framing.read(metadata.get("framing"), files, str(path))
    arguments = kind.parse_files(files, str(folder))
    model = kind(**arguments, **metadata["options"], framing=framing)
    # A problem is one of the only file, or of several files together.
    model.check(str(folder / names[0] if len(kind.file_names) == 1 else folder))
    framing.check(model.pieces, str(path))
    expected = _metadata(model, files)
    if metadata != expected:
        raise ArtifactError(
            f"{path}: does not describe {' and '.join(files)}: found "
            f"{_differing(metadata, expected)}, expected "
            f"{_differing(expected, metadata)}. {_REMEDY}"
        )
    canonical = json.dumps(metadata, sort_keys=True).encode()
    return TokenizerArtifact(
        model=model, fingerprint=hashlib.sha256(canonical).hexdigest()
    )


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Builds the tokenizer of a folder, with its format of conversations.

    Raises:
        ArtifactError: A file is missing, modified, truncated or of another version.
        ChatTemplateError: The chat template cannot be compiled.
    """
    return build_tokenizer(read_tokenizer(folder).model)


def build_tokenizer(model: TokenizerModel) -> Tokenizer:
    """Builds a tokenizer with its format of conversations.

    Raises:
        ChatTemplateError: The chat template cannot be compiled.
    """
    tokenizer = model.build()
    tokenizer.chat_format = make_chat_format(model)
    return tokenizer


def have_same_ids(one: str | Path, other: str | Path) -> bool:
    """Checks if texts have the same ids, except for added tokens in them.

    The tokenizers may differ in their chat templates and in the special tokens that
    are matched in texts.

    Args:
        one: A tokenizer folder.
        other: Another tokenizer folder.

    Raises:
        ArtifactError: A file is missing, modified, truncated or of another version.
    """
    models = [read_tokenizer(folder).model for folder in (one, other)]
    plain = [
        replace(
            model,
            framing=replace(
                model.framing, whole_pieces=(), folded_pieces=(), chat_template=None
            ),
        )
        for model in models
    ]
    return plain[0] == plain[1]


def tokenizer_fingerprint(folder: str | Path) -> str:
    """Verifies the folder and returns its sha256 in hex, which later stages compare.

    Raises:
        ArtifactError: A file is missing, modified, truncated or of another version.
    """
    return read_tokenizer(folder).fingerprint


def _metadata(model: TokenizerModel, files: Mapping[str, bytes]) -> dict[str, Any]:
    special = asdict(model.special)
    special["sentinels"] = list(special["sentinels"])
    del special["stop"]  # is in `framing`, which older folders lack
    framing = model.framing.options()
    return {
        "format_version": _FORMAT_VERSION,
        "kind": model.kind,
        "options": {name: getattr(model, name) for name in model.option_types},
        **({"framing": framing} if framing else {}),
        "vocabulary_size": len(model.pieces),
        "special_ids": special,
        "files": {name: _sha256(content) for name, content in files.items()},
    }


def _parse_metadata(path: Path) -> dict[str, Any]:
    try:
        metadata = yaml.safe_load(read_bytes(path, _REMEDY))
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
    if metadata.get("kind") not in _MODELS:
        raise ArtifactError(
            f"{path}: kind is {metadata.get('kind')!r}, expected one of "
            f"{', '.join(_MODELS)}. {_REMEDY}"
        )
    for key in ("options", "files"):
        if not isinstance(metadata.get(key), dict):
            raise ArtifactError(f"{path}: {key} has no keys. {_REMEDY}")
    return metadata


def _check_options(
    options: dict[str, Any], types: Mapping[str, type], path: Path
) -> None:
    for name in {*types, *options}:
        expected, found = types.get(name), options.get(name)
        if type(found) is not expected:
            wanted = {bool: "true or false", int: "a number", None: "no such key"}
            raise ArtifactError(
                f"{path}: options.{name} is {found!r}, expected {wanted[expected]}. "
                f"{_REMEDY}"
            )


def _read_files(
    folder: Path, names: tuple[str, ...], sums: Mapping[str, str]
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in names:
        files[name] = read_bytes(folder / name, _REMEDY)
        found, expected = _sha256(files[name]), sums.get(name)
        if found != expected:
            raise ArtifactError(
                f"{folder / name}: sha256 is {found}, but {METADATA_FILE} expects "
                f"{expected}: the file was altered or cut short. {_REMEDY}"
            )
    return files


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _differing(these: dict[str, Any], those: dict[str, Any]) -> dict[str, Any]:
    missing = object()
    return {k: v for k, v in these.items() if those.get(k, missing) != v}
