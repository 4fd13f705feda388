"""Statistics of a vocabulary on texts: tokens, unknown tokens, lost accents.

BERT's uncased normalization decomposes a text and drops its combining marks. In French
this removes accents; in Thai it removes vowels and tones, in Japanese it removes the
voicing of が, and in Russian й becomes и.
"""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from transbeam.pipeline.cleaning.unicode_scripts import script_name
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

_EXAMPLES = 10
_PIECE_CHARACTERS = 30
_CODE_POINTS = 0x110000
_WHITE_SPACE = np.array([i for i in range(0x3001) if chr(i).isspace()])


# Scripts whose combining marks distinguish words. Marks in Arabic and Hebrew are vowels
# that are usually omitted, in Latin and Greek accents.
_SCRIPTS = frozenset(
    [
        "balinese",
        "bengali",
        "cyrillic",
        "devanagari",
        "gujarati",
        "gurmukhi",
        "hiragana",
        "javanese",
        "kannada",
        "katakana",
        "khmer",
        "lao",
        "malayalam",
        "myanmar",
        "oriya",
        "sinhala",
        "sundanese",
        "tamil",
        "telugu",
        "thai",
        "tibetan",
    ]
)
# The separate combining voicing marks of Japanese.
_VOICING = (0x3099, 0x309A)
_LAST = 0x20000  # no such letters above


@dataclass(frozen=True)
class VocabularyReport:
    """Statistics of a tokenizer on some texts.

    Attributes:
        texts: The number of texts.
        bytes: The size of the texts in UTF-8, in bytes.
        characters: The number of characters without white space.
        words: The number of words, separated by white space.
        tokens: The number of tokens.
        unknown_tokens: The number of unknown tokens.
        uncovered_characters: The number of occurrences of uncovered characters, which
            become the unknown token when tokenized alone or lose a combining mark that
            their script needs.
        uncovered_examples: The most frequent uncovered characters, with their counts.
        stripped_characters: The number of occurrences of characters that lose a needed
            combining mark; see `loses_essential_mark`.
        pieces: The number of ordinary, not special, pieces of the vocabulary.
        unused_pieces: The number of ordinary pieces that did not occur.
        longest_pieces: Of the pieces that occurred in the texts, those with the most
            characters.
    """

    texts: int
    bytes: int
    characters: int
    words: int
    tokens: int
    unknown_tokens: int
    uncovered_characters: int
    uncovered_examples: dict[str, int]
    stripped_characters: int
    pieces: int
    unused_pieces: int
    longest_pieces: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Returns the statistics and four ratios, each None if its divisor is 0."""
        characters, words, tokens = self.characters, self.words, self.tokens
        ratios = {
            "character_coverage": _ratio(
                characters - self.uncovered_characters, characters
            ),
            "unknown_fraction": _ratio(self.unknown_tokens, tokens),
            "tokens_per_word": _ratio(tokens, words),
            "bytes_per_token": _ratio(self.bytes, tokens),
        }
        return {**vars(self), **ratios, "longest_pieces": list(self.longest_pieces)}

    def describe(self) -> str:
        """Formats the report as a few lines of text."""
        ratio = self.as_json()
        shown = {
            name: "-" if ratio[name] is None else f"{ratio[name]:.{digits}f}"
            for name, digits in (
                ("character_coverage", 5),
                ("unknown_fraction", 5),
                ("tokens_per_word", 3),
                ("bytes_per_token", 3),
            )
        }
        uncovered = "  ".join(
            f"{_visible(character)} {count:,}"
            for character, count in self.uncovered_examples.items()
        )
        lines = {
            "texts": f"{self.texts:,} of {self.bytes:,} bytes, {self.words:,} words",
            "tokens": f"{self.tokens:,}",
            "tokens per word": shown["tokens_per_word"],
            "bytes per token": shown["bytes_per_token"],
            "unknown tokens": f"{shown['unknown_fraction']} of all, "
            f"{self.unknown_tokens:,}",
            "characters with a piece": f"{shown['character_coverage']} of all",
            "most frequent without": uncovered or "none",
            "marks stripped": self._stripped(),
            "pieces": f"{self.pieces:,}, of which {self.unused_pieces:,} did not occur",
            "longest that occurred": "  ".join(map(_visible, self.longest_pieces)),
        }
        return "\n".join(
            f"{name:<24} {value}".rstrip() for name, value in lines.items()
        )

    def _stripped(self) -> str:
        """Describes the loss of essential marks by accent stripping."""
        if not self.stripped_characters:
            return "none that a letter needs"
        share = self.stripped_characters / self.characters
        return (
            f"from {share:.1%} of all, which are other letters without them: "
            "strip_accents=false keeps them, as byte_bpe and unigram do"
        )


def report_vocabulary(
    tokenizer: Tokenizer, blocks: Iterable[np.ndarray]
) -> VocabularyReport:
    """Computes the report of a tokenizer on texts.

    Args:
        tokenizer: Any tokenizer.
        blocks: object (N,) each. Texts as bytes, about a megabyte per block.

    Example:
    >>> from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    ...     WordPieceTokenizer,
    ... )
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "c"]
    >>> texts = np.array(["ab é".encode(), b"ab b"], object)
    >>> report = report_vocabulary(WordPieceTokenizer(pieces), [texts])
    >>> report.words, report.tokens, report.unknown_tokens, report.unused_pieces
    (4, 6, 2, 1)
    >>> report.uncovered_examples
    {'b': 3, 'é': 1}
    """
    texts = size = words = 0
    piece_counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    character_counts = np.zeros(_CODE_POINTS, np.int64)
    is_space = np.zeros(_CODE_POINTS, bool)
    is_space[_WHITE_SPACE] = True
    for block in blocks:
        texts += len(block)
        size += sum(map(len, block))
        ids = tokenizer.tokenize(block).flat_values.numpy()
        piece_counts += np.bincount(ids, minlength=len(piece_counts))
        joined = b"\n".join([b"", *block]).decode("utf-8", "replace")
        code_points = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        spaces = is_space[code_points]
        words += int(np.sum(spaces[:-1] & ~spaces[1:]))
        found, counts = np.unique(code_points[~spaces], return_counts=True)
        character_counts[found] += counts
    ordinary = tokenizer.ordinary_ids
    there = np.flatnonzero(character_counts)
    stripped = there[:0]
    if getattr(tokenizer, "strip_accents", False):
        stripped = there[loses_essential_mark()[there]]
    uncovered = np.union1d(_uncovered(tokenizer, there), stripped)
    ranked = uncovered[np.argsort(-character_counts[uncovered], kind="stable")]
    occurred = [tokenizer.pieces[i] for i in ordinary[piece_counts[ordinary] > 0]]
    unknown = tokenizer.special.unknown
    return VocabularyReport(
        texts=texts,
        bytes=size,
        characters=int(character_counts.sum()),
        words=words,
        tokens=int(piece_counts.sum()),
        unknown_tokens=0 if unknown is None else int(piece_counts[unknown]),
        uncovered_characters=int(character_counts[uncovered].sum()),
        uncovered_examples={
            chr(i): int(character_counts[i]) for i in ranked[:_EXAMPLES].tolist()
        },
        stripped_characters=int(character_counts[stripped].sum()),
        pieces=len(ordinary),
        unused_pieces=len(ordinary) - len(occurred),
        longest_pieces=tuple(
            sorted(occurred, key=lambda piece: (-len(piece), piece))[:_EXAMPLES]
        ),
    )


def _uncovered(tokenizer: Tokenizer, code_points: np.ndarray) -> np.ndarray:
    """Returns the characters that are unknown when tokenized alone."""
    unknown = tokenizer.special.unknown
    if unknown is None or not len(code_points):
        return code_points[:0]
    texts = np.array([chr(i).encode() for i in code_points.tolist()], object)
    ids = tokenizer.tokenize(texts)
    is_unknown = ids.flat_values.numpy() == unknown
    rows = np.repeat(np.arange(len(texts)), ids.row_lengths().numpy())
    return code_points[np.unique(rows[is_unknown])]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def escape(piece: str) -> str:
    """Escapes the characters of a piece that are not printable."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece
    )


def _visible(piece: str) -> str:
    shown = escape(piece)
    if len(shown) > _PIECE_CHARACTERS:
        return f"{shown[:_PIECE_CHARACTERS]}…"
    return shown


@functools.cache
def loses_essential_mark() -> np.ndarray:
    """Returns whether each code point loses an essential mark, bool (0x110000,).

    Example:
    >>> [c for c in "กิがйé" if loses_essential_mark()[ord(c)]]
    ['ิ', 'が', 'й']
    """
    needed = np.zeros(_CODE_POINTS, np.bool_)
    for code_point in range(_LAST):
        character = chr(code_point)
        parts = unicodedata.normalize("NFD", character)
        loses = any(unicodedata.category(part) == "Mn" for part in parts)
        needed[code_point] = loses and _script(character) in _SCRIPTS
    needed[list(_VOICING)] = True
    return needed


def count_needed_marks(texts: Iterable[bytes]) -> Counter[str]:
    """Counts the characters that lose an essential mark, by script.

    Args:
        texts: UTF-8.

    Returns:
        The counts by script; the key `''` has the number of all characters.

    Example:
    >>> count_needed_marks(["กินが a".encode()])
    Counter({'': 6, 'thai': 1, 'hiragana': 1})
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if text.isascii():
            counts[""] += len(text)
            continue
        decoded = text.decode("utf-8", "replace").encode("utf-32-le")
        code_points = np.frombuffer(decoded, np.uint32)
        counts[""] += len(code_points)
        needed = code_points[loses_essential_mark()[code_points]]
        for code_point, number in zip(
            *np.unique(needed, return_counts=True), strict=True
        ):
            counts[_script(chr(code_point))] += int(number)
    return counts


def _script(character: str) -> str:
    return "hiragana" if ord(character) in _VOICING else script_name(character)
