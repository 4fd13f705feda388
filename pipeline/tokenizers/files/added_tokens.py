"""Reads files that add tokens to a vocabulary.

added_tokens.json        the token and its id, of older checkpoints
tokenizer_config.json    `added_tokens_decoder`: the properties of each
special_tokens_map.json  the special ones among them
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.file_reading import (
    parse_json_object,
    read_bytes,
)
from transbeam.pipeline.tokenizers.base.vocabulary import name_empty_pieces
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

_Model = TypeVar("_Model", WordPieceModel, ByteBPEModel)

ADDED, SETTINGS, MAP = (
    "added_tokens.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
# The maximum gap of ids between a vocabulary and its added tokens.
_LARGEST_GAP = 100_000
# Flags for the matching of tokens that our tokenizers do not support.
_UNKNOWN_FLAGS = ("single_word", "lstrip", "rstrip")


@dataclass(frozen=True)
class AddedToken:
    """A token that was added to a vocabulary.

    Attributes:
        content: The token as written in texts.
        id: Its id.
        special: Whether the token is a special token, which is not matched in texts.
        normalized: Whether the token is matched in normalized text.
        where: The file that defines the token, for error messages.
        flags: Unsupported flags, such as `lstrip`, that the file sets for the token.
    """

    content: str
    id: int
    special: bool
    normalized: bool
    where: str
    flags: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, fields: Any, where: str, number: Any = None) -> "AddedToken":
        """Reads a token from its JSON object.

        Raises:
            ArtifactError: The object is damaged.
        """
        fields = fields if isinstance(fields, dict) else {}
        content, number = fields.get("content"), fields.get("id", number)
        if not isinstance(content, str) or type(number) is not int or number < 0:
            shown = json.dumps(fields, ensure_ascii=False)[:60]
            raise ArtifactError(
                f"{where}: {shown} is no added token with content and id; the file is "
                "damaged"
            )
        special = fields.get("special") is True
        return cls(
            content,
            number,
            special,
            fields.get("normalized", not special) is True,
            where,
            tuple(flag for flag in _UNKNOWN_FLAGS if fields.get(flag)),
        )


def read_added_tokens(folder: Path) -> list[AddedToken]:
    """Reads the added tokens in the folder of a `vocab.txt` or `vocab.json`.

    Raises:
        ArtifactError: A file is damaged.
    """
    settings = _object(folder / SETTINGS)
    decoder = settings.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict):
        decoder = {"": None}
    where = f"{folder / SETTINGS}: added_tokens_decoder"
    tokens = {
        token.content: token
        for token in (
            AddedToken.from_json(fields, where, int(i) if i.isdecimal() else None)
            for i, fields in decoder.items()
        )
    }
    special = {*_special(settings), *_special(_object(folder / MAP))}
    for content, number in _object(folder / ADDED).items():
        fields = {"content": content, "id": number, "special": content in special}
        tokens.setdefault(content, AddedToken.from_json(fields, str(folder / ADDED)))
    return list(tokens.values())


def with_added_tokens(
    model: _Model, tokens: Iterable[AddedToken], num_rows: int | None = None
) -> _Model:
    """Adds tokens to a tokenizer; those that are not special are matched in texts.

    Args:
        model: The tokenizer, which may already contain some of the tokens.
        tokens: The tokens to add.
        num_rows: The number of rows of the model's embedding, if known: tokens with
            larger ids are left out.

    Raises:
        ArtifactError: An id belongs to another piece or is far above the vocabulary's
            ids, or a token has an unsupported flag.

    Example:
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    >>> model = WordPieceModel(pieces=pieces, lowercase=False, strip_accents=False)
    >>> city = AddedToken("[CITY]", 6, special=False, normalized=True, where="f")
    >>> added = with_added_tokens(model, [city])
    >>> added.pieces[6], added.build().tokenize(["a[CITY]a"]).to_list()
    ('[CITY]', [[5, 6, 5]])
    """
    tokens = [t for t in tokens if num_rows is None or t.id < num_rows]
    pieces = list(model.pieces)
    ids = {piece: i for i, piece in enumerate(pieces)}
    for token in sorted(tokens, key=lambda token: token.id):
        if token.id > len(pieces) + _LARGEST_GAP:
            raise ArtifactError(
                f"{token.where}: {token.content!r} has the id {token.id:,}, far from "
                f"the {len(pieces):,} pieces before it; the file is damaged or of "
                "another vocabulary"
            )
        if ids.setdefault(token.content, token.id) != token.id:
            raise ArtifactError(
                f"{token.where}: {token.content!r} has the id {token.id}, but "
                f"{ids[token.content]} in the vocabulary; the file is damaged"
            )
        pieces += [""] * (token.id + 1 - len(pieces))
        if pieces[token.id] not in ("", token.content):
            raise ArtifactError(
                f"{token.where}: {token.content!r} has the id {token.id}, which is "
                f"{pieces[token.id]!r} in the vocabulary; the file is damaged"
            )
        pieces[token.id] = token.content
    found = [token for token in tokens if not token.special]
    _check(found)
    folds = getattr(model, "lowercase", False)
    framing = replace(
        model.framing,
        whole_pieces=tuple(t.content for t in found if not (folds and t.normalized)),
        folded_pieces=tuple(t.content for t in found if folds and t.normalized),
    )
    return replace(model, pieces=name_empty_pieces(pieces), framing=framing)


def _check(found: Sequence[AddedToken]) -> None:
    for token in found:
        if token.flags:
            raise ArtifactError(
                f"{token.where}: {token.content!r} has {token.flags[0]}=true, which "
                "our tokenizers do not do: a token is found wherever it stands, and "
                "nothing around it"
            )
        if not token.content or "\n" in token.content:
            raise ArtifactError(
                f"{token.where}: {token.content!r} is no token that can be found in a "
                "text: it is empty or goes over the end of a line"
            )


def _special(fields: dict[str, Any]) -> set[str]:
    """Returns the special tokens: the values of keys such as `pad_token`."""
    named: list[Any] = []
    for key, value in fields.items():
        if key.endswith("_token") or key == "additional_special_tokens":
            named += value if isinstance(value, list) else [value]
    contents = [n.get("content") if isinstance(n, dict) else n for n in named]
    return {content for content in contents if isinstance(content, str)}


def _object(file: Path) -> dict[str, Any]:
    """Reads the JSON object of a file; an empty object if the file does not exist."""
    return parse_json_object(read_bytes(file), str(file)) if file.is_file() else {}
