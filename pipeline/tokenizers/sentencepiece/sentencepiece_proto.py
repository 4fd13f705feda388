"""The content of a SentencePiece `.model` file. Needs no TensorFlow."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sentencepiece import SentencePieceProcessor

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.vocabulary import sentinel_ids, sentinel_pieces

# Field numbers of the protobuf message ModelProto.
_TRAINER_SPEC, _NORMALIZER_SPEC = 2, 3


@dataclass(frozen=True, kw_only=True)
class SentencePieceProto:
    """A model of the SentencePiece library, with sentinels after its pieces.

    Attributes:
        proto: The content of its `.model` file: of type unigram, BPE, word or char.
        num_sentinels: The number of sentinel ids, as in T5: the last id is
            `<extra_id_0>`.
    """

    proto: bytes
    num_sentinels: int = 0

    @cached_property
    def processor(self) -> SentencePieceProcessor:
        """The library's processor for the model."""
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

        Without a padding token, padding is the end token, or else `<unk>`.
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
        """True for pieces of text, which are not special, bool (V,)."""
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
        if not {_TRAINER_SPEC, _NORMALIZER_SPEC} <= set(_fields(self.proto)):
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


def _fields(message: bytes) -> Iterator[int]:
    """Yields the numbers of a protobuf message's fields, up to the first error.

    The library's own `sentencepiece_model_pb2` cannot be imported with the protobuf
    version that TensorFlow needs.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        length, place = _varint(message, place)
        place += length
        if tag & 7 != 2 or length < 0 or place > len(message):  # 2: bytes with a length
            return
        yield tag >> 3


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Decodes a varint; returns it, or -1 at the end, and the next position."""
    value = shift = 0
    while place < len(message):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    return -1, place
