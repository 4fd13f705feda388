"""What a WordPiece vocabulary must hold, whoever made it. Needs no TensorFlow."""

from collections import Counter
from collections.abc import Sequence

from configs.errors import ArtifactError

PAD = "[PAD]"
UNKNOWN = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"

# A learned vocabulary begins with these, in this order, so padding is 0.
SPECIAL_PIECES = (PAD, UNKNOWN, CLS, SEP, MASK)

# Marks a piece that continues a word.
CONTINUATION = "##"

# Words with more characters are [UNK] as a whole, as in BERT.
MAXIMUM_WORD_CHARACTERS = 100

# What the FastWordpiece kernel can hold, `##` not counted.
_MAXIMUM_PIECE_BYTES = 256


def check_vocabulary(vocabulary: Sequence[str], *, where: str) -> None:
    """Refuses a vocabulary that cannot be used for WordPiece.

    Args:
        vocabulary: The pieces in the order of their ids.
        where: Names the vocabulary in the message, such as its path.

    Raises:
        ArtifactError: A special piece is missing, or a piece is there twice, empty,
            too long or has a line feed in it.

    Example:
    >>> check_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], where="vocab.txt")
    Traceback (most recent call last):
    configs.errors.ArtifactError: vocab.txt: [MASK] is missing among the 5 pieces...
    """
    counts = Counter(vocabulary)
    missing = [piece for piece in SPECIAL_PIECES if piece not in counts]
    if missing:
        raise ArtifactError(
            f"{where}: {', '.join(missing)} is missing among the {len(vocabulary)} "
            f"pieces; expected all of {', '.join(SPECIAL_PIECES)}. Use the vocabulary "
            "of a BERT model or learn one"
        )
    for position, piece in enumerate(vocabulary):
        problem = _problem(piece, counts[piece])
        if problem:
            raise ArtifactError(
                f"{where}: piece {position}, {piece[:40]!r}, {problem}; expected "
                "distinct pieces, one a line. Use the file as it was written or learn "
                "a new vocabulary"
            )


def _problem(piece: str, count: int) -> str | None:
    if count > 1:
        return f"is there {count} times"
    if not piece:
        return "is empty"
    if "\n" in piece:
        return "has a line feed in it"
    if len(piece.removeprefix(CONTINUATION).encode()) > _MAXIMUM_PIECE_BYTES:
        return f"is longer than {_MAXIMUM_PIECE_BYTES} bytes of UTF-8"
    return None
