"""A tokenizer with the pieces that some words need, and no others. No TensorFlow.

A word is cut by steps: WordPiece takes the longest piece that the rest begins with,
byte-level BPE joins the pair of the lowest rank. Each step takes the best of what there
is. Where a vocabulary loses only pieces that no step took, each step finds the same one
still there and nothing better beside it, so the word is cut as before. What a word took
on the way counts, too: the pieces before the place where WordPiece finds none and makes
the whole word [UNK], and the joins that others were built on.

With fewer pieces than that, words are spelled by shorter ones.
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
from transbeam.pipeline.tokenizers.files.tokenizer_folder import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

Pair = tuple[str, str]

# More often than any word of a corpus.
_ALWAYS = 10**18


@dataclass(frozen=True)
class Trimmed:
    """A tokenizer that was made smaller.

    Attributes:
        model: What it is made of now.
        old_ids: Of each of its pieces, the id that it had; they ascend, so what was the
            first piece still is.
        words: How many words the corpus has.
        changed: How many of them are cut into other pieces than before.
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
    """Takes the pieces away that a corpus does not need.

    What is always kept: of WordPiece the special pieces, sentinels, and each character
    of the corpus as the first and as a further one of a word, if there was such a
    piece; of byte-level BPE the pieces that are names, and the 256 bytes. So words of
    the same characters can still be written. Pieces of BERT's `[unused0]` kind are not
    kept.

    Args:
        model: What the tokenizer is made of.
        words: How often each word occurs, as the tokenizer cuts texts into words.
        min_count: Pieces that are taken less often go, too.
        max_size: At most so many pieces, the most frequent ones; None for no limit.

    Raises:
        ArtifactError: The tokenizer is SentencePiece's.
        ConfigError: `max_size` is less than what is always kept.

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
    """How WordPiece cuts words."""

    def __init__(self, pieces: Iterable[str]):
        self._pieces = set(pieces)
        self._longest = max(map(len, self._pieces))

    def cut(self, word: str) -> tuple[str, ...] | None:
        """The pieces; None for a word that is [UNK]."""
        taken = self.taken(word)
        bare = "".join(piece.removeprefix(CONTINUATION) for piece in taken[1:])
        whole = "".join(taken[:1]) + bare
        return taken if taken and len(whole) == len(word) else None

    def taken(self, word: str) -> tuple[str, ...]:
        """The pieces, also those before the place where a word turns out as [UNK]."""
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
    _check_size(max_size, always)
    ids = {piece: number for number, piece in enumerate(model.pieces)}
    frequent = [p for p in counts if counts[p] >= min_count and p not in always]
    frequent.sort(key=lambda piece: (-counts[piece], ids[piece]))
    if max_size is not None:
        frequent = frequent[: max_size - len(always)]
    return replace(model, pieces=_in_order(model.pieces, always.union(frequent)))


# -------------------------------------------------------------- byte-level BPE


class _MergedPiece(NamedTuple):
    """A word after all its joins, and these."""

    pieces: tuple[str, ...]
    joins: frozenset[Pair]


class _LowestRankFirst:
    """How byte-level BPE cuts words."""

    def __init__(self, merges: Sequence[Pair]):
        # Of a pair that is there twice the last counts, as in the engine.
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}

    def cut(self, word: str) -> tuple[str, ...]:
        """The pieces."""
        return self.joined(word).pieces

    def joined(self, word: str) -> _MergedPiece:
        """The pieces, and the pairs that were joined on the way.

        The pair of the lowest rank is joined, the leftmost first, until none is left.
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
            # What stood there when it was offered may be a part of others by now.
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
        if piece not in model.special_pieces:  # it is made of others, which stay, too
            word = from_alphabet(piece).decode("utf-8", "replace")
            counts.update(dict.fromkeys(cutter.joined(word).joins, _ALWAYS))
    always = {*model.special_pieces, *ALPHABET}
    _check_size(max_size, always)
    ranks = {pair: rank for rank, pair in enumerate(model.merges)}
    frequent = [pair for pair in counts if counts[pair] >= min_count]
    frequent.sort(key=lambda pair: (-counts[pair], ranks[pair]))
    if max_size is not None:
        frequent = frequent[: max_size - len(always)]
    kept = set(_makeable(frequent))
    # In the order of the ranks that count, should a pair be there twice.
    merges = tuple(sorted(kept, key=ranks.__getitem__))
    pieces = always | {left + right for left, right in merges}
    return replace(model, pieces=_in_order(model.pieces, pieces), merges=merges)


def _makeable(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """The pairs whose halves are bytes, or made by others of them.

    Example:
    >>> list(_makeable([("ab", "c"), ("a", "b"), ("x", "yz")]))
    [('a', 'b'), ('ab', 'c')]
    """
    made = set(ALPHABET)
    # A half is shorter than the whole: those it is made of have come by then.
    for left, right in sorted(pairs, key=lambda pair: len(pair[0] + pair[1])):
        if left in made and right in made:
            made.add(left + right)
            yield left, right


# ------------------------------------------------------------------------ both


def _check_size(max_size: int | None, always: set[str]) -> None:
    if max_size is not None and max_size < len(always):
        raise ConfigError(
            f"max_size={max_size} is less than the {len(always)} pieces that are "
            "always kept: special ones, and one for each byte of byte-level BPE or two "
            "for each character of the corpus. Give more"
        )


def _in_order(pieces: Sequence[str], kept: set[str]) -> tuple[str, ...]:
    return tuple(piece for piece in pieces if piece in kept)
