"""Reads what a SentencePiece model holds. The library tells pieces, but no rules."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
)

# Fields of the protobuf messages ModelProto, SentencePiece, TrainerSpec and
# NormalizerSpec, by their numbers.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_PIECE_SCORE, _PIECE_TYPE = 2, 3
_MODEL_TYPE, _SPACE_AS_SUFFIX, _UNKNOWN_TEXT = 3, 24, 44
_RULES, _ADD_SPACE, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
# What the library takes off for a character that has no piece.
_UNKNOWN_PENALTY = 10.0


@dataclass(frozen=True)
class NormalizerRules:
    """How a model normalises text.

    Attributes:
        trie: An array of 32-bit numbers that finds the rule for a text; may be empty.
        texts: What texts become, each with a zero byte behind it.
        add_space: Whether a space is put before a text.
        space_at_end: Or rather behind it.
        remove_extra_spaces: Whether of several spaces one is left.
        escape_spaces: Whether a space is written `▁`.
    """

    trie: bytes
    texts: bytes
    add_space: bool
    space_at_end: bool
    remove_extra_spaces: bool
    escape_spaces: bool


@dataclass(frozen=True)
class PieceFile:
    """What a model holds beside the names of its pieces.

    Attributes:
        kind: `unigram` or `bpe`.
        types: int (V,), as in the file.
        scores: float64 (V,), what the search adds up.
        unknown_score: Of a character that has no piece.
        unknown_text: What the unknown piece is read as.
        rules: How text is normalised.
    """

    kind: str
    types: np.ndarray
    scores: np.ndarray
    unknown_score: float
    unknown_text: str
    rules: NormalizerRules

    @property
    def of_text(self) -> list[int]:
        """The pieces that are found in a text."""
        return self._of_types(_NORMAL, _USER_DEFINED, _UNUSED)

    @property
    def named(self) -> list[int]:
        """The others, which are known by their names alone."""
        return self._of_types(_UNKNOWN, _CONTROL, _BYTE)

    @property
    def user_defined(self) -> list[int]:
        """The pieces that are found before all rules."""
        return self._of_types(_USER_DEFINED)

    @property
    def unused(self) -> list[int]:
        """The pieces that are not to be used."""
        return self._of_types(_UNUSED)

    @property
    def byte_pieces(self) -> list[int]:
        """The pieces of the 256 bytes, or none."""
        return self._of_types(_BYTE)

    def _of_types(self, *types: int) -> list[int]:
        return np.flatnonzero(np.isin(self.types, types)).tolist()


def read_pieces(model: SentencePieceProto, where: str) -> PieceFile:
    """Reads a model.

    Args:
        model: Checked.
        where: Its file, for messages.

    Raises:
        ArtifactError: It is of a type that phones have no search for, or has rules for
            the way back.
    """
    pieces, parts = _parts(model)
    trainer, normalizer = parts[_TRAINER], parts[_NORMALIZER]
    kind = _TYPES[trainer.get(_MODEL_TYPE, 1)]
    if kind not in ("unigram", "bpe"):
        raise ArtifactError(
            f"{where}: is of the type {kind}, expected unigram or bpe. The tokenizer "
            "for phones knows these two: learn such a one, or export without it"
        )
    if parts.get(_DENORMALIZER, {}).get(_RULES):
        raise ArtifactError(
            f"{where}: has rules that change a text back (a denormalizer), which the "
            "tokenizer for phones does not know. Learn a model without, or export "
            "without it"
        )
    types = np.array([piece.get(_PIECE_TYPE, _NORMAL) for piece in pieces])
    scores = np.array([_float(piece.get(_PIECE_SCORE)) for piece in pieces])
    normal = scores[types == _NORMAL]
    if kind == "unigram":
        scores = _with_bonus(model, types, scores)
    unknown_text = trainer.get(_UNKNOWN_TEXT, " ⁇ ".encode())
    return PieceFile(
        kind,
        types,
        scores.astype(np.float64),
        float(normal.min() - np.float32(_UNKNOWN_PENALTY)),
        unknown_text.decode(),
        _rules(trainer, normalizer),
    )


def read_rules(model: SentencePieceProto) -> NormalizerRules:
    """Reads how a model normalises text.

    Args:
        model: Checked.
    """
    _, parts = _parts(model)
    return _rules(parts[_TRAINER], parts[_NORMALIZER])


def _parts(model: SentencePieceProto) -> tuple[list[dict[int, Any]], dict[int, Any]]:
    """The fields of each piece, and those of the other parts by their numbers."""
    pieces, parts = [], {}
    for number, value in _fields(model.proto):
        if number == _PIECES:
            pieces.append(dict(_fields(value)))
        else:
            parts[number] = dict(_fields(value))
    return pieces, parts


def _with_bonus(
    model: SentencePieceProto, types: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """Scores, where those of user-defined pieces are such that these always win."""
    # The library looks for the highest score from the least positive number on.
    highest = max(scores[types == _NORMAL].max(), np.finfo(np.float32).tiny)
    wide = scores.astype(np.float64)
    for i in np.flatnonzero(types == _USER_DEFINED):
        length = np.float32(len(model.pieces[i].encode()))
        wide[i] = float(length * highest) - 0.1
    return wide


def _rules(trainer: dict[int, Any], normalizer: dict[int, Any]) -> NormalizerRules:
    trie, texts = b"", b""
    if content := normalizer.get(_RULES, b""):
        (size,) = struct.unpack_from("<I", content)
        trie, texts = content[4 : 4 + size], content[4 + size :]
    return NormalizerRules(
        trie,
        texts,
        bool(normalizer.get(_ADD_SPACE, True)),
        bool(trainer.get(_SPACE_AS_SUFFIX, False)),
        bool(normalizer.get(_REMOVE_SPACES, True)),
        bool(normalizer.get(_ESCAPE_SPACES, True)),
    )


def _float(content: bytes | None) -> np.float32:
    return np.float32(struct.unpack("<f", content)[0] if content else 0)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of a protobuf message's fields: numbers, or bytes."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
            continue
        size = {1: 8, 5: 4}.get(tag & 7) or number()
        yield tag >> 3, message[place : place + size]
        place += size
