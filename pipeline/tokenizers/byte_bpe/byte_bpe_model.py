"""What a byte-level BPE tokenizer is made of. Needs no TensorFlow."""

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
    pieces_in_order,
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

# No merge makes a special piece; such are always named so. `madeupword` is RoBERTa's.
_SPECIAL = re.compile(r"<[^ ]+>|\[[^ ]+\]|madeupword\d+")


@dataclass(frozen=True, kw_only=True)
class ByteBPEModel:
    """A byte-level vocabulary and its merges, as in GPT-2.

    Attributes:
        pieces: In the order of their ids, bytes written in GPT-2's alphabet.
        merges: The pairs of pieces that are joined, the most urgent first.
        add_prefix_space: Whether a text is cut as if a space stood before it.
        framing: What is said beside the pieces.
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
        """The ids of the special pieces."""
        return self.framing.apply(byte_bpe_special_ids(self.pieces))

    @cached_property
    def special_pieces(self) -> tuple[str, ...]:
        """The pieces that are names: no byte, and no merge makes them."""
        of_text = {left + right for left, right in self.merges}.union(ALPHABET)
        of_text -= {name for names in BYTE_BPE_SPECIALS.values() for name in names}
        return tuple(piece for piece in self.pieces if piece not in of_text)

    def files(self) -> dict[str, bytes]:
        """Vocabulary and merges in GPT-2's formats."""
        ids = {piece: i for i, piece in enumerate(self.pieces)}
        merges = (f"{left} {right}" for left, right in self.merges)
        lines = "".join(f"{line}\n" for line in (_VERSION_LINE, *merges))
        return {
            VOCABULARY_FILE: f"{json.dumps(ids, ensure_ascii=False)}\n".encode(),
            MERGES_FILE: lines.encode(),
        }

    @classmethod
    def from_files(
        cls,
        files: Mapping[str, bytes],
        options: Mapping[str, Any],
        *,
        where: str,
        framing: Framing = PLAIN,
    ) -> "ByteBPEModel":
        """Reads what `files` wrote.

        Raises:
            ArtifactError: Vocabulary and merges cannot be used.
        """
        vocabulary_path = f"{where}/{VOCABULARY_FILE}"
        ids = parse_json_object(files[VOCABULARY_FILE], vocabulary_path)
        model = cls(
            pieces=pieces_in_order(ids, vocabulary_path),
            merges=parse_merges(files[MERGES_FILE], f"{where}/{MERGES_FILE}"),
            framing=framing,
            **options,
        )
        model.check(where)
        return model

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
        """The tokenizer."""
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
    r"""The pairs of a `merges.txt`, one a line with a space between them.

    Raises:
        ArtifactError: A line is no pair, or the last one has no end.

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
