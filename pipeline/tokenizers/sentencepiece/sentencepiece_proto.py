"""The content of a SentencePiece `.model` file. Needs no TensorFlow."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.vocabulary import sentinel_ids, sentinel_pieces

# Fields of the protobuf messages ModelProto, SentencePiece, TrainerSpec and
# NormalizerSpec, by their numbers.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_PIECE_SCORE, _PIECE_TYPE = 2, 3
_MODEL_TYPE, _SPACE_AS_SUFFIX, _UNKNOWN_TEXT = 3, 24, 44
_RULES, _ADD_SPACE, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
# The library's score penalty for a character without a piece.
_UNKNOWN_PENALTY = 10.0
_WIRE_VARINT, _WIRE_BYTES = 0, 2  # wire types
_FIXED_SIZES = {1: 8, 5: 4}


@dataclass(frozen=True, kw_only=True)
class SentencePieceProto:
    """A model of the SentencePiece library, with sentinels after its pieces.

    Attributes:
        proto: The content of a `.model` file; the model's type is unigram, BPE, word or
            char.
        num_sentinels: The number of sentinel ids, as in T5: the last id of the
            vocabulary is that of `<extra_id_0>`.
    """

    proto: bytes
    num_sentinels: int = 0

    @cached_property
    def processor(self) -> SentencePieceProcessor:
        """The SentencePiece library's processor for the model."""
        processor = SentencePieceProcessor()
        processor.LoadFromSerializedProto(self.proto)
        return processor

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in the order of their ids."""
        own = self.processor.id_to_piece(list(range(self.processor.get_piece_size())))
        return (*own, *reversed(sentinel_pieces(self.num_sentinels)))

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens, by the model's fields or by their names.

        If the model has no padding token, the padding id is the id of the end token;
        without an end token, it is that of `<unk>`.
        """
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        begin = self._own(self.processor.bos_id(), ids.get("[CLS]"))
        end = self._own(self.processor.eos_id(), ids.get("[SEP]"))
        unknown = self.processor.unk_id()
        pad = self._own(self.processor.pad_id(), end)
        return SpecialIds(
            pad=unknown if pad is None else pad,
            unknown=unknown,
            begin=begin,
            end=end,
            mask=ids.get("[MASK]", ids.get("<mask>")),
            sentinels=sentinel_ids(self.pieces),
        )

    def _own(self, own_id: int, otherwise: int | None) -> int | None:
        return own_id if own_id >= 0 else otherwise

    @cached_property
    def is_ordinary(self) -> np.ndarray:
        """Mask of ordinary pieces, neither special nor unused, bool (V,)."""
        types = self.processor
        ordinary = [
            not (types.is_control(i) or types.is_unknown(i) or types.is_unused(i))
            for i in range(types.get_piece_size())
        ]
        is_ordinary = np.array(ordinary + [False] * self.num_sentinels)
        special = self.special
        is_ordinary[[special.pad, *special.sentinels]] = False
        if special.mask is not None:
            is_ordinary[special.mask] = False
        return is_ordinary

    def check(self, where: str) -> None:
        """Raises an ArtifactError if SentencePiece cannot read the model."""
        problem = None
        if not {_TRAINER, _NORMALIZER} <= dict(_fields(self.proto)).keys():
            # The library accepts a file that is truncated between two pieces.
            problem = "the file is cut short or no SentencePiece model"
        else:
            try:
                _ = self.processor
            except RuntimeError as error:
                problem = f"SentencePiece cannot read it ({error})"
        if problem:
            raise ArtifactError(f"{where}: {problem}. Use the file as it was written")
        if self.num_sentinels < 0:
            raise ArtifactError(f"{where}: {self.num_sentinels} sentinels cannot be")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the number and value, int or bytes, of a protobuf message's fields.

    Stops at the first error in the message. The message is parsed here, as
    SentencePiece's `sentencepiece_model_pb2` cannot be imported with the protobuf
    version that TensorFlow needs.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        size = _FIXED_SIZES.get(tag & 7, 0)
        if tag & 7 in (_WIRE_VARINT, _WIRE_BYTES):
            size, place = _varint(message, place)
        value = size
        if tag & 7 != _WIRE_VARINT:
            value = message[place : place + size]
            place += size
        if min(tag, size) < 0 or place > len(message):
            return
        yield tag >> 3, value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Returns a decoded varint (-1 at the message's end), and the next position."""
    value = shift = 0
    while place < len(message):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    return -1, place


@dataclass(frozen=True)
class NormalizerRules:
    """The normalization rules of a model.

    Attributes:
        trie: A trie, as an array of 32-bit numbers, that maps texts to replacement
            rules; may be empty.
        texts: The replacement texts, each terminated by a zero byte.
        add_space: Whether a space is added to texts.
        space_at_end: Whether the added space is appended instead of prepended.
        remove_extra_spaces: Whether runs of spaces are collapsed.
        escape_spaces: Whether spaces are replaced by `▁`.
    """

    trie: bytes
    texts: bytes
    add_space: bool
    space_at_end: bool
    remove_extra_spaces: bool
    escape_spaces: bool


@dataclass(frozen=True)
class ModelContent:
    """The content of a model without the names of its pieces.

    Attributes:
        kind: `unigram` or `bpe`.
        types: int (V,), the type of each piece, as a number of the `.model` format.
        scores: float64 (V,), the score of each piece: a unigram model maximizes the sum
            of the scores, a BPE model first merges the pair whose result has the
            highest score.
        unknown_score: The score of a character that no piece matches.
        unknown_text: The decoded text of the unknown piece.
        rules: The normalization rules.
    """

    kind: str
    types: np.ndarray
    scores: np.ndarray
    unknown_score: float
    unknown_text: str
    rules: NormalizerRules

    @property
    def of_text(self) -> list[int]:
        """The ids of the pieces that can match a part of a text."""
        return self._of_types(_NORMAL, _USER_DEFINED, _UNUSED)

    @property
    def named(self) -> list[int]:
        """The ids of unknown, control and byte pieces, which match no text."""
        return self._of_types(_UNKNOWN, _CONTROL, _BYTE)

    @property
    def user_defined(self) -> list[int]:
        """The ids of user-defined pieces, which are matched before normalization."""
        return self._of_types(_USER_DEFINED)

    @property
    def unused(self) -> list[int]:
        """The ids of unused pieces."""
        return self._of_types(_UNUSED)

    @property
    def byte_pieces(self) -> list[int]:
        """The ids of the pieces for the 256 bytes, or none."""
        return self._of_types(_BYTE)

    def _of_types(self, *types: int) -> list[int]:
        return np.flatnonzero(np.isin(self.types, types)).tolist()


def read_pieces(model: SentencePieceProto, where: str) -> ModelContent:
    """Reads a model.

    Args:
        model: Checked.
        where: The path of the model's file, for error messages.

    Raises:
        ArtifactError: The tokenizer for phones does not support the model's type, or
            the model has a denormalizer.
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
    return ModelContent(
        kind,
        types,
        scores.astype(np.float64),
        float(normal.min() - np.float32(_UNKNOWN_PENALTY)),
        unknown_text.decode(),
        _rules(trainer, normalizer),
    )


def read_rules(model: SentencePieceProto) -> NormalizerRules:
    """Reads the normalization rules of a model.

    Args:
        model: Checked.
    """
    _, parts = _parts(model)
    return _rules(parts[_TRAINER], parts[_NORMALIZER])


def _parts(model: SentencePieceProto) -> tuple[list[dict[int, Any]], dict[int, Any]]:
    """Returns fields of each piece, and of the other submessages by field number."""
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
    """Sets the scores of user-defined pieces so high that they always match."""
    # The library initializes its maximum score with the smallest positive number.
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
