"""Trims a tokenizer to the pieces that a corpus needs. No TensorFlow.

Words are tokenized greedily: WordPiece takes the longest piece at the start of the
remaining word, byte-level BPE merges the pair with the lowest rank. If all removed
pieces are ones that no step of the algorithm selects for the corpus, each step selects
the same piece or pair as before, and the tokens stay the same. Pieces of intermediate
steps are also kept: for a word that becomes [UNK], the pieces before the position at
which WordPiece finds no piece; for byte-level BPE, the merges on which other merges
depend.

If needed pieces are removed as well, words are split into shorter pieces.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MAXIMUM_WORD_CHARACTERS,
    SPECIAL_PIECES,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    from_alphabet,
    to_alphabet,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

Pair = tuple[str, str]

# Larger than the count of any word of a corpus.
_ALWAYS = 10**18


@dataclass(frozen=True)
class Trimmed:
    """A trimmed tokenizer.

    Attributes:
        model: The vocabulary and the rules of the trimmed tokenizer.
        old_ids: The id of each kept piece before trimming, in ascending order, so the
            order of pieces is unchanged.
        words: The number of words of the corpus, including repetitions.
        changed: The number of words, including repetitions, whose tokens changed.
    """

    model: TokenizerModel
    old_ids: tuple[int, ...]
    words: int
    changed: int


def trim(
    model: TokenizerModel,
    words: Mapping[str, int],
    *,
    min_count: int = 1,
    max_size: int | None = None,
) -> Trimmed:
    """Removes the pieces that a corpus does not need.

    WordPiece always keeps special pieces, sentinels, and the pieces for single
    characters of the corpus at the start and inside of words; byte-level BPE always
    keeps special pieces and the 256 bytes. So new words that consist of the corpus's
    characters can still be tokenized. Reserved pieces such as BERT's `[unused0]` are
    not kept.

    Args:
        model: The vocabulary and the rules of the tokenizer to trim.
        words: The counts of words, as split by the tokenizer.
        min_count: Pieces with a lower count in the corpus are removed, unless they are
            always kept.
        max_size: The maximum size of the trimmed vocabulary, in which the most frequent
            pieces are kept; None for no limit.

    Raises:
        ArtifactError: The tokenizer is a SentencePiece model.
        ConfigError: `max_size` is less than the number of pieces that are always kept.

    Example:
    >>> pieces = (*SPECIAL_PIECES, "a", "b", "##a", "##b", "ab", "##ba")
    >>> bert = WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)
    >>> trimmed = trim(bert, {"aba": 3})
    >>> trimmed.model.pieces[5:], trimmed.old_ids[5:], trimmed.changed
    (('a', 'b', '##a', '##b', 'ab'), (5, 6, 7, 8, 9), 0)
    """
    match model:
        case WordPieceModel():
            smaller = _smaller_wordpiece(model, words, min_count, max_size)
            old, new = (_LongestFirst(m.pieces) for m in (model, smaller))
        case ByteBPEModel():
            smaller = _smaller_byte_bpe(model, words, min_count, max_size)
            old, new = (_LowestRankFirst(m.merges) for m in (model, smaller))
        case SentencePieceModel():
            raise ArtifactError(
                "the tokenizer is SentencePiece's, which cannot be trimmed: it weighs "
                "whole words by the scores of all pieces, the worst of which says what "
                "an unknown character costs. Trim a run with a WordPiece or byte-level "
                "BPE tokenizer, or learn a smaller one"
            )
    changed = sum(
        count for word, count in words.items() if old.cut(word) != new.cut(word)
    )
    ids = {piece: number for number, piece in enumerate(model.pieces)}
    old_ids = tuple(ids[piece] for piece in smaller.pieces)
    smaller = replace(smaller, framing=model.framing.with_new_ids(old_ids))
    return Trimmed(smaller, old_ids, sum(words.values()), changed)


# ------------------------------------------------------------------- WordPiece


class _LongestFirst:
    """WordPiece's greedy algorithm: longest match first."""

    def __init__(self, pieces: Iterable[str]):
        self._pieces = set(pieces)
        self._longest = max(map(len, self._pieces))

    def cut(self, word: str) -> tuple[str, ...] | None:
        """Returns the pieces; None for a word that is [UNK]."""
        taken = self.taken(word)
        bare = "".join(piece.removeprefix(CONTINUATION) for piece in taken[1:])
        whole = "".join(taken[:1]) + bare
        return taken if taken and len(whole) == len(word) else None

    def taken(self, word: str) -> tuple[str, ...]:
        """Returns the matched pieces, incomplete if the word becomes [UNK]."""
        if len(word) > MAXIMUM_WORD_CHARACTERS:
            return ()
        taken: list[str] = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            end = min(len(word), start + self._longest)
            while end > start and prefix + word[start:end] not in self._pieces:
                end -= 1
            if end == start:
                break
            taken.append(prefix + word[start:end])
            start = end
        return tuple(taken)


def _smaller_wordpiece(
    model: WordPieceModel,
    words: Mapping[str, int],
    min_count: int,
    max_size: int | None,
) -> WordPieceModel:
    cutter = _LongestFirst(model.pieces)
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts.update(dict.fromkeys(cutter.taken(word), count))
    kept = (*model.special.sentinels, *model.special.stop)
    always = {*SPECIAL_PIECES, *(model.pieces[i] for i in kept)}
    always |= {*model.framing.found_whole}
    letters = {
        letter for piece in counts for letter in piece.removeprefix(CONTINUATION)
    }
    forms = {form for letter in letters for form in (letter, CONTINUATION + letter)}
    always |= forms & set(model.pieces)
    room = _room(max_size, always)
    ids = {piece: number for number, piece in enumerate(model.pieces)}
    frequent = [p for p in counts if counts[p] >= min_count and p not in always]
    frequent.sort(key=lambda piece: (-counts[piece], ids[piece]))
    return replace(model, pieces=_in_order(model.pieces, always.union(frequent[:room])))


# -------------------------------------------------------------- byte-level BPE


class _MergedPiece(NamedTuple):
    """The pieces of a word after all merges, and the merges."""

    pieces: tuple[str, ...]
    joins: frozenset[Pair]


class _LowestRankFirst:
    """The algorithm of byte-level BPE: lowest rank first."""

    def __init__(self, merges: Sequence[Pair]):
        # Of duplicate pairs the last is used, as in the tokenizer.
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}

    def cut(self, word: str) -> tuple[str, ...]:
        """Returns the pieces."""
        return self.joined(word).pieces

    def joined(self, word: str) -> _MergedPiece:
        """Returns the pieces, and the pairs that were merged.

        The leftmost pair with the lowest rank is merged, until no pair has a rank.
        """
        pieces: list[str | None] = list(to_alphabet(word.encode()))
        before, after = (
            list(range(-1, len(pieces) - 1)),
            list(range(1, len(pieces) + 1)),
        )
        queue: list[tuple[int, int, Pair]] = []

        def offer(place: int) -> None:
            if place < 0 or after[place] == len(pieces):
                return
            left, right = pieces[place], pieces[after[place]]
            assert left is not None
            assert right is not None
            rank = self._ranks.get((left, right))
            if rank is not None:
                heapq.heappush(queue, (rank, place, (left, right)))

        for place in range(len(pieces)):
            offer(place)
        joins: set[Pair] = set()
        while queue:
            _, place, pair = heapq.heappop(queue)
            right = after[place]
            # Outdated, if one of the two was merged with another piece.
            if right == len(pieces) or (pieces[place], pieces[right]) != pair:
                continue
            joins.add(pair)
            pieces[place], pieces[right] = "".join(pair), None
            after[place] = after[right]
            if after[place] < len(pieces):
                before[after[place]] = place
            offer(before[place])
            offer(place)
        return _MergedPiece(tuple(piece for piece in pieces if piece), frozenset(joins))


def _smaller_byte_bpe(
    model: ByteBPEModel,
    words: Mapping[str, int],
    min_count: int,
    max_size: int | None,
) -> ByteBPEModel:
    cutter = _LowestRankFirst(model.merges)
    counts: Counter[Pair] = Counter()
    for word, count in words.items():
        counts.update(dict.fromkeys(cutter.joined(word).joins, count))
    stops = [model.pieces[i] for i in model.special.stop]
    for piece in (*stops, *model.framing.found_whole):
        if piece not in model.special_pieces:  # keeps the merges that make it
            word = from_alphabet(piece).decode("utf-8", "replace")
            counts.update(dict.fromkeys(cutter.joined(word).joins, _ALWAYS))
    always = {*model.special_pieces, *ALPHABET}
    room = _room(max_size, always)
    ranks = {pair: rank for rank, pair in enumerate(model.merges)}
    frequent = [pair for pair in counts if counts[pair] >= min_count]
    frequent.sort(key=lambda pair: (-counts[pair], ranks[pair]))
    kept = set(_makeable(frequent[:room]))
    # In the order of the ranks in use, in case of duplicate pairs.
    merges = tuple(sorted(kept, key=ranks.__getitem__))
    pieces = always | {left + right for left, right in merges}
    return replace(model, pieces=_in_order(model.pieces, pieces), merges=merges)


def _makeable(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yields the merges whose two pieces are bytes or results of other merges.

    Example:
    >>> list(_makeable([("ab", "c"), ("a", "b"), ("x", "yz")]))
    [('a', 'b'), ('ab', 'c')]
    """
    available = set(ALPHABET)
    # Sorted by length, since the halves of a pair are shorter than the whole.
    for left, right in sorted(pairs, key=lambda pair: len(pair[0] + pair[1])):
        if left in available and right in available:
            available.add(left + right)
            yield left, right


# ------------------------------------------------------------------------ both


def _room(max_size: int | None, always: set[str]) -> int | None:
    """Returns the number of pieces to keep besides `always`; None for no limit."""
    if max_size is None:
        return None
    if max_size < len(always):
        raise ConfigError(
            f"max_size={max_size} is less than the {len(always)} pieces that are "
            "always kept: special ones, and one for each byte of byte-level BPE or two "
            "for each character of the corpus. Give more"
        )
    return max_size - len(always)


def _in_order(pieces: Sequence[str], kept: set[str]) -> tuple[str, ...]:
    return tuple(piece for piece in pieces if piece in kept)
