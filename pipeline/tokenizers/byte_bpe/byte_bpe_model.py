"""Vocabulary and rules of a byte-level BPE tokenizer. Needs no TensorFlow."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.file_reading import (
    REMEDY,
    parse_json_object,
    sort_pieces,
    split_lines,
)
from transbeam.pipeline.tokenizers.base.framing import PLAIN, Framing
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    BYTE_BPE_SPECIALS,
    byte_bpe_special_ids,
    check_byte_bpe,
)

if TYPE_CHECKING:
    from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import (
        ByteBPETokenizer,
    )

VOCABULARY_FILE = "vocab.json"
MERGES_FILE = "merges.txt"

_VERSION_LINE = "#version: 0.2"

# Names of special pieces, which no merge makes. `madeupword` is RoBERTa's.
_SPECIAL = re.compile(r"<[^ ]+>|\[[^ ]+\]|madeupword\d+")


@dataclass(frozen=True, kw_only=True)
class ByteBPEModel:
    """A byte-level vocabulary and its merges, as in GPT-2.

    Attributes:
        pieces: The pieces in the order of their ids, in GPT-2's alphabet of bytes.
        merges: The pairs of pieces to merge, by rank.
        add_prefix_space: Whether a space is prepended to texts.
        framing: The tokenizer's rules besides the vocabulary, such as begin and end
            tokens.
    """

    kind: ClassVar[str] = "byte_bpe"
    file_names: ClassVar[tuple[str, ...]] = (VOCABULARY_FILE, MERGES_FILE)
    option_types: ClassVar[dict[str, type]] = {"add_prefix_space": bool}

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    add_prefix_space: bool = False
    framing: Framing = PLAIN

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return self.framing.apply(byte_bpe_special_ids(self.pieces))

    @cached_property
    def special_pieces(self) -> tuple[str, ...]:
        """The special pieces: neither single bytes nor results of merges."""
        of_text = {left + right for left, right in self.merges}.union(ALPHABET)
        of_text -= {name for names in BYTE_BPE_SPECIALS.values() for name in names}
        return tuple(piece for piece in self.pieces if piece not in of_text)

    def files(self) -> dict[str, bytes]:
        """Returns vocabulary and merges in GPT-2's formats."""
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        merges = (f"{left} {right}" for left, right in self.merges)
        lines = "".join(f"{line}\n" for line in (_VERSION_LINE, *merges))
        return {
            VOCABULARY_FILE: f"{json.dumps(ids, ensure_ascii=False)}\n".encode(),
            MERGES_FILE: lines.encode(),
        }

    @staticmethod
    def parse_files(files: Mapping[str, bytes], where: str) -> dict[str, Any]:
        """Parses the result of `files` into arguments of the constructor.

        Raises:
            ArtifactError: Vocabulary or merges are not in GPT-2's formats.
        """
        vocabulary_path = f"{where}/{VOCABULARY_FILE}"
        ids = parse_json_object(files[VOCABULARY_FILE], vocabulary_path)
        merges = parse_merges(files[MERGES_FILE], f"{where}/{MERGES_FILE}")
        return {"pieces": sort_pieces(ids, vocabulary_path), "merges": merges}

    def check(self, where: str) -> None:
        """Raises an ArtifactError if vocabulary and merges cannot be used."""
        check_byte_bpe(self.pieces, self.merges, self.special_pieces, where=where)
        named = {*self.special_pieces} - {*self.framing.found_whole}
        strange = [p for p in self.pieces if p in named and not _SPECIAL.fullmatch(p)]
        if strange:
            raise ArtifactError(
                f"{where}: {len(strange)} of the {len(self.pieces)} pieces are made by "
                f"no merge, such as {strange[0][:40]!r}: the merges are cut short or "
                f"of another tokenizer. {REMEDY}"
            )
        try:
            _ = self.special
        except ValueError:
            raise ArtifactError(
                f"{where}: special pieces are missing; expected <|endoftext|> as in "
                f"GPT-2, or <s>, <pad> and </s> as in RoBERTa. {REMEDY}"
            ) from None

    def build(self) -> "ByteBPETokenizer":
        """Builds the tokenizer."""
        from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import (
            ByteBPETokenizer,
        )

        return ByteBPETokenizer(
            self.pieces,
            self.merges,
            special_pieces=self.special_pieces,
            add_prefix_space=self.add_prefix_space,
            special=self.special,
            whole_pieces=self.framing.whole_pieces,
        )


def parse_merges(content: bytes, where: str) -> tuple[tuple[str, str], ...]:
    r"""Parses the pairs of a `merges.txt`, one per line, separated by a space.

    Raises:
        ArtifactError: A line is not a pair, or the last line has no line end.

    Example:
    >>> parse_merges(b"#version: 0.2\na b\nab c\n", "merges.txt")
    (('a', 'b'), ('ab', 'c'))
    """
    if not content.endswith((b"\n", b"\r")):
        last = content.rpartition(b"\n")[2]
        raise ArtifactError(
            f"{where}: the last line, {last[:40].decode(errors='replace')!r}, has no "
            f"end: the file is cut short. {REMEDY}"
        )
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(split_lines(content, where), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            raise ArtifactError(
                f"{where}: line {number} is {line[:40]!r}, expected two pieces with a "
                f"space between them. {REMEDY}"
            )
        merges.append((left, right))
    return tuple(merges)
