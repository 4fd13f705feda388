"""Names of special pieces, and checks of vocabularies. Needs no TensorFlow."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

PAD = "[PAD]"
UNKNOWN = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"

# A trained vocabulary begins with these, in this order, so padding is 0.
SPECIAL_PIECES = (PAD, UNKNOWN, CLS, SEP, MASK)

# Marks a piece that continues a word.
CONTINUATION = "##"

# Words with more characters are [UNK] as a whole, as in BERT.
MAXIMUM_WORD_CHARACTERS = 100

# The limit of the FastWordpiece kernel, without `##`.
_MAXIMUM_PIECE_BYTES = 256

_RESERVED = re.compile(r"\[unused\d+\]")
_SENTINEL = re.compile(r"<extra_id_(\d+)>")


def reserved_pieces(number: int) -> tuple[str, ...]:
    """Returns reserved pieces, named as in BERT's vocabularies.

    Example:
    >>> reserved_pieces(2)
    ('[unused0]', '[unused1]')
    """
    return tuple(f"[unused{i}]" for i in range(number))


def sentinel_pieces(number: int) -> tuple[str, ...]:
    """Returns sentinel pieces, named as in T5, in the order of the spans they replace.

    Example:
    >>> sentinel_pieces(2)
    ('<extra_id_0>', '<extra_id_1>')
    """
    return tuple(f"<extra_id_{i}>" for i in range(number))


def is_reserved(piece: str) -> bool:
    """Returns whether a piece is one of `reserved_pieces`."""
    return _RESERVED.fullmatch(piece) is not None


def name_empty_pieces(pieces: Sequence[str]) -> tuple[str, ...]:
    """Replaces empty pieces of a file by names of reserved pieces.

    A blank line has an id, like all lines, but no text is tokenized to it.

    Example:
    >>> name_empty_pieces(["[unused0]", "", "a"])
    ('[unused0]', '[unused1]', 'a')
    """
    taken = set(pieces)
    numbers = (n for n in itertools.count() if f"[unused{n}]" not in taken)
    return tuple(piece or f"[unused{next(numbers)}]" for piece in pieces)


def sentinel_ids(pieces: Sequence[str]) -> tuple[int, ...]:
    """Returns the ids of the sentinels, in the order of their numbers.

    Example:
    >>> sentinel_ids(["a", "<extra_id_1>", "<extra_id_0>"])
    (2, 1)
    """
    matches = ((i, _SENTINEL.fullmatch(piece)) for i, piece in enumerate(pieces))
    return tuple(i for _, i in sorted((int(m[1]), i) for i, m in matches if m))


def wordpiece_special_ids(vocabulary: Sequence[str]) -> SpecialIds:
    """Returns the special ids of a vocabulary that passed `check_vocabulary`."""
    return SpecialIds(
        pad=vocabulary.index(PAD),
        unknown=vocabulary.index(UNKNOWN),
        begin=vocabulary.index(CLS),
        end=vocabulary.index(SEP),
        mask=vocabulary.index(MASK),
        sentinels=sentinel_ids(vocabulary),
    )


def check_vocabulary(vocabulary: Sequence[str], *, where: str) -> None:
    """Rejects a vocabulary that cannot be used for WordPiece.

    Args:
        vocabulary: The pieces in the order of their ids.
        where: The name of the vocabulary in the error message, such as its path.

    Raises:
        ArtifactError: A special piece is missing, or a piece is duplicated, empty, too
            long or contains a line feed or a NUL.

    Example:
    >>> check_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], where="vocab.txt")
    Traceback (most recent call last):
    ArtifactError: vocab.txt: [MASK] is missing among the 5 pieces...
    """
    counts = Counter(vocabulary)
    if missing := [piece for piece in SPECIAL_PIECES if piece not in counts]:
        raise ArtifactError(
            f"{where}: {', '.join(missing)} is missing among the {len(vocabulary)} "
            f"pieces; expected all of {', '.join(SPECIAL_PIECES)}."
            f"{_more_on_a_line(missing[0], vocabulary)} Use the vocabulary of a BERT "
            "model or learn one"
        )
    for position, piece in enumerate(vocabulary):
        if problem := _problem(piece, counts[piece]):
            raise ArtifactError(
                f"{where}: piece {position}, {piece[:40]!r}, {problem}; expected "
                "distinct pieces, one a line. Use the file as it was written or learn "
                "a new vocabulary"
            )


def _more_on_a_line(piece: str, vocabulary: Sequence[str]) -> str:
    """Returns a hint if a line has more text than the piece, such as an id; else ''."""
    lines = (line for line in vocabulary if line.split()[:1] == [piece])
    if (line := next(lines, None)) is None:
        return ""
    return f" A line is {line[:40]!r}, with more on it than the piece: take that off."


def _problem(piece: str, count: int) -> str | None:
    if count > 1:
        return f"is there {count} times"
    if not piece:
        return "is empty"
    if "\n" in piece:
        return "has a line feed in it"
    if "\0" in piece:
        return "has a NUL in it"
    if len(piece.removeprefix(CONTINUATION).encode()) > _MAXIMUM_PIECE_BYTES:
        return f"is longer than {_MAXIMUM_PIECE_BYTES} bytes of UTF-8"
    return None
