"""Checks of byte-level BPE vocabularies and GPT-2's alphabet. Needs no TensorFlow.

Pieces are bytes, written as text in GPT-2's alphabet, which has a printable character
for each of the 256 bytes: `Ġ` is the space, `Ċ` the line feed.
"""

from collections import Counter
from collections.abc import Sequence

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.vocabulary import sentinel_ids

END_OF_TEXT = "<|endoftext|>"

# The special pieces of byte-level vocabularies by family, in the order of their ids.
BYTE_BPE_SPECIALS = {
    "gpt2": (END_OF_TEXT,),
    "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
}


def _alphabet() -> list[str]:
    """Returns one printable character for each of the 256 bytes, as in GPT-2."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [
        chr(byte) if byte in visible else chr(0x100 + hidden.index(byte))
        for byte in range(256)
    ]


ALPHABET = tuple(_alphabet())
SPACE = ALPHABET[ord(" ")]

_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


def to_alphabet(content: bytes) -> str:
    """Converts bytes to text with one printable character per byte.

    Example:
    >>> to_alphabet(" naïve".encode())
    'ĠnaÃ¯ve'
    """
    return "".join([ALPHABET[byte] for byte in content])


def from_alphabet(text: str) -> bytes:
    """Converts a result of `to_alphabet` back to bytes.

    Raises:
        KeyError: A character is not in the alphabet.

    Example:
    >>> from_alphabet("ĠnaÃ¯ve").decode()
    ' naïve'
    """
    return bytes([_BYTE_OF[character] for character in text])


def check_byte_bpe(
    vocabulary: Sequence[str],
    merges: Sequence[tuple[str, str]],
    special_pieces: Sequence[str],
    *,
    where: str,
) -> None:
    """Rejects a vocabulary and merges that cannot be used for byte-level BPE.

    Args:
        vocabulary: The pieces in the order of their ids, in GPT-2's alphabet.
        merges: The pairs of pieces to merge, by rank.
        special_pieces: The special pieces, which are names instead of sequences of
            bytes.
        where: The name of the vocabulary in the error message, such as its folder.

    Raises:
        ArtifactError: A piece is duplicated, empty or not in the alphabet; or a byte, a
            special piece or a piece of a merge is missing; or a text can be tokenized
            to a special piece.

    Example:
    >>> check_byte_bpe(ALPHABET[:200], [], [], where="vocab.json")
    Traceback (most recent call last):
    ArtifactError: vocab.json: 56 of the 256 single bytes have no...
    """
    remedy = "Use the files as they were written or learn a new vocabulary"
    known = set(vocabulary)
    if bytes_missing := [byte for byte in ALPHABET if byte not in known]:
        raise ArtifactError(
            f"{where}: {len(bytes_missing)} of the 256 single bytes have no piece, "
            f"such as {bytes_missing[0]!r}; expected one for each, so that no text is "
            f"lost. {remedy}"
        )
    if missing := [piece for piece in special_pieces if piece not in known]:
        raise ArtifactError(
            f"{where}: the special piece {missing[0]!r} is missing among the "
            f"{len(vocabulary)} pieces. Name the special pieces it has, or add it"
        )
    results = {left + right for left, right in merges}.union(ALPHABET)
    if confused := [piece for piece in special_pieces if piece in results]:
        raise ArtifactError(
            f"{where}: the special piece {confused[0]!r} can also be made of the bytes "
            "of a text; expected one that no text is cut into. Use another name, such "
            f"as {END_OF_TEXT!r}"
        )
    counts, special = Counter(vocabulary), set(special_pieces)
    for position, piece in enumerate(vocabulary):
        if problem := _problem(piece, counts[piece], piece in special):
            raise ArtifactError(
                f"{where}: piece {position}, {piece[:40]!r}, {problem}; expected "
                f"distinct pieces in GPT-2's alphabet of bytes. {remedy}"
            )
    for position, (left, right) in enumerate(merges):
        for piece in (left, right, left + right):
            if piece not in known:
                raise ArtifactError(
                    f"{where}: merge {position}, {left[:40]!r} with {right[:40]!r}, "
                    f"needs the piece {piece[:40]!r}, which is not in the vocabulary. "
                    f"{remedy}"
                )


def _problem(piece: str, count: int, is_special: bool) -> str | None:
    if count > 1:
        return f"is there {count} times"
    if not piece:
        return "is empty"
    if not is_special and not _BYTE_OF.keys() >= set(piece):
        return "has a character outside the alphabet and is not named as special"
    return None


def byte_bpe_special_ids(vocabulary: Sequence[str]) -> SpecialIds:
    """Returns the special ids of a byte-level vocabulary, as in GPT-2 or RoBERTa.

    In vocabularies like GPT-2's, a single token is the begin, end and padding token.

    Raises:
        ValueError: The vocabulary has the special pieces of neither GPT-2 nor RoBERTa.
    """
    sentinels = sentinel_ids(vocabulary)
    if {"<s>", "<pad>", "</s>"} <= set(vocabulary):
        return SpecialIds(
            pad=vocabulary.index("<pad>"),
            begin=vocabulary.index("<s>"),
            end=vocabulary.index("</s>"),
            unknown=_find(vocabulary, "<unk>"),
            mask=_find(vocabulary, "<mask>"),
            sentinels=sentinels,
        )
    end = vocabulary.index(END_OF_TEXT)
    return SpecialIds(pad=end, begin=end, end=end, sentinels=sentinels)


def _find(vocabulary: Sequence[str], piece: str) -> int | None:
    return vocabulary.index(piece) if piece in vocabulary else None
