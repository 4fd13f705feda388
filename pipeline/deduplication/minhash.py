"""MinHash signatures, which estimate the similarity of texts.

A document is the set of its shingles, runs of `shingle_words` words. For a random order
of all shingles, two documents have the same smallest shingle with a probability equal
to their Jaccard similarity (Broder, 1997, "On the resemblance and containment of
documents"). A signature contains the smallest value under each of `num_hashes` random
orders, so the share of equal entries of two signatures estimates the similarity `s` of
the documents, with a standard deviation of `sqrt(s * (1 - s) / num_hashes)`.

Each order is defined by a separate hash function. Other schemes compute all values in
one pass (Shrivastava, 2017, "Optimal densification for fast and accurate minwise
hashing"), but for documents with fewer shingles than `num_hashes` they fill most
entries of a signature with copies of other entries. In 32-bit arithmetic, which NumPy
vectorizes, the plain scheme takes no longer than splitting the text into words, so a
one-pass scheme would save little time.

No Python loop iterates over words, and the signature of a text is the same in every
process.
"""

import functools
import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.data import NearDuplicatesConfig
from transbeam.pipeline.documents.document import document_hash
from transbeam.pipeline.documents.randomness import mix

BLOCK_CHARACTERS = 1 << 17  # per block: its arrays fit into the CPU cache

_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_WORD_START = np.uint64(1 << 32)  # added to a word's first character, so ab c ≠ a bc

_LETTER, _WORD = 1, 2  # part of a word, and a word of its own; the rest separates

# In scripts without spaces between words each character counts as a word.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3400, 0x9FFF),  # Han
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True)
class Shingles:
    """The shingles of several documents, one document after another.

    Attributes:
        hashes: The hashes of the shingles, uint64, one per shingle, with repetitions.
        counts: int64, the number of shingles of each document, at least 1.
    """

    hashes: np.ndarray
    counts: np.ndarray


def signatures(texts: Sequence[str], config: NearDuplicatesConfig) -> np.ndarray:
    """Computes the MinHash signatures of documents.

    Args:
        texts: Valid Unicode.
        config: Configuration with the lengths of shingles and signatures.

    Returns:
        uint32 `(len(texts), num_hashes)`.

    Example:
    >>> a, b, c = signatures(
    ...     ["One two three.", "one, two -- THREE", "four five six"],
    ...     NearDuplicatesConfig(shingle_words=2),
    ... )
    >>> (a == b).all(), (a == c).any()
    (np.True_, np.False_)
    """
    rows = np.empty((len(texts), config.num_hashes), np.uint32)
    for block in _blocks(texts):
        found = shingles(texts[block], config.shingle_words)
        rows[block] = _smallest(found, config.num_hashes)
    return rows


def shingles(texts: Sequence[str], shingle_words: int) -> Shingles:
    """Hashes every n-gram of `shingle_words` words of each document.

    Words are runs of letters, marks and digits, after case folding and NFKC. A document
    with fewer than `shingle_words` words is a single shingle of all its words; a
    document without words is identified by its exact text.

    Example:
    >>> shingles(["a b c", "A, b!", "?"], 2).counts
    array([2, 1, 1])
    """
    characters, words, words_of = _words(texts)
    # The hash of characters i to j is the sum of c[i] + c[i+1] B + c[i+2] B² + …, so
    # every shingle's is a difference of two prefix sums, divided by a power of B.
    powers, inverses = _powers(-(-(len(characters) + 1) // BLOCK_CHARACTERS))
    prefix = np.zeros(len(characters) + 1, np.uint64)
    np.cumsum(characters * powers[: len(characters)], out=prefix[1:])

    counts = np.maximum(words_of - shingle_words + 1, 1)
    first_word = np.cumsum(words_of) - words_of
    first_shingle = np.cumsum(counts) - counts
    word = np.arange(counts.sum()) + np.repeat(first_word - first_shingle, counts)
    end = np.minimum(word + shingle_words, np.repeat(first_word + words_of, counts))
    hashes = mix((prefix[words[end]] - prefix[words[word]]) * inverses[words[word]])
    for wordless in np.flatnonzero(words_of == 0).tolist():
        hashes[first_shingle[wordless]] = document_hash(texts[wordless])
    return Shingles(hashes, counts)


def _words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Splits texts into words.

    Returns:
        A uint64 array of the code points of all words, in which the first code point of
        each word is marked; the offset of each word in this array, followed by the
        array's length; and the number of words of each text.
    """
    joined = "\0".join([text.replace("\0", " ") for text in texts])
    joined = unicodedata.normalize("NFKC", joined).casefold()
    codes = np.frombuffer(joined.encode("utf-32-le"), "<u4")
    kinds = _character_kinds()[codes]
    starts = kinds != 0
    starts[1:] &= (kinds[1:] == _WORD) | (kinds[:-1] != _LETTER)
    kept = np.flatnonzero(kinds)
    characters = codes[kept].astype(np.uint64)
    words = np.flatnonzero(starts[kept])
    characters[words] += _WORD_START
    text_ends = np.append(np.flatnonzero(codes == 0), len(codes))[: len(texts)]
    words_before = np.searchsorted(np.flatnonzero(starts), text_ends)
    return (
        characters,
        np.append(words, len(characters)),
        np.diff(words_before, prepend=0),
    )


@functools.cache
def _character_kinds() -> np.ndarray:
    kinds = np.array(
        [unicodedata.category(chr(code))[0] in "LMN" for code in range(0x110000)],
        np.uint8,
    )
    for first, last in _UNSPACED:
        kinds[first : last + 1] *= _WORD
    return kinds


@functools.lru_cache(maxsize=1)
def _powers(blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the powers B⁰, B¹, … modulo 2^64 of the hash base, and their inverses."""
    tables = np.ones((2, blocks * BLOCK_CHARACTERS), np.uint64)
    tables[0, 1:] = _BASE
    tables[1, 1:] = pow(_BASE, -1, 2**64)
    powers, inverses = np.multiply.accumulate(tables, axis=1)
    return powers, inverses


def _smallest(found: Shingles, num_hashes: int) -> np.ndarray:
    """Computes each document's minimum under each hash, uint32 `(N, num_hashes)`.

    A hash of a shingle is `a * low + b * high` modulo 2^32, where `low` and `high` are
    the two halves of the shingle's 64 bits and the factors `a` and `b` are odd, so each
    hash is uniform, and two hashes are nearly independent.
    """
    low = found.hashes.astype(np.uint32)
    high = (found.hashes >> np.uint64(32)).astype(np.uint32)
    begins = np.cumsum(found.counts) - found.counts
    values, term = np.empty_like(low), np.empty_like(low)
    smallest = np.empty((num_hashes, len(begins)), np.uint32)
    factors = constants("minhash", num_hashes).view(np.uint32).reshape(-1, 2) | 1
    for row, (a, b) in zip(smallest, factors, strict=True):
        np.multiply(low, a, out=values)
        np.multiply(high, b, out=term)
        np.add(values, term, out=values)
        np.minimum.reduceat(values, begins, out=row)
    return smallest.T


def constants(purpose: str, count: int) -> np.ndarray:
    """Returns pseudorandom uint64 constants, determined by the name of their purpose.

    Example:
    >>> constants("an example", 2)
    array([ 3545450879933841673, 11198102129609064932], dtype=uint64)
    """
    digest = hashlib.shake_128(purpose.encode()).digest(8 * count)
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _blocks(texts: Sequence[str]) -> Iterator[slice]:
    """Yields slices of consecutive documents with about `BLOCK_CHARACTERS` in total."""
    begin, size = 0, 0
    for index, text in enumerate(texts):
        if size and size + len(text) > BLOCK_CHARACTERS:
            yield slice(begin, index)
            begin, size = index, 0
        size += len(text)
    if begin < len(texts):
        yield slice(begin, len(texts))
