"""Vectorized byte pair encoding of many words. Only core TensorFlow ops are used.

By definition the algorithm is sequential: of all adjacent pairs in a word the one with
the lowest rank (the earliest merge) is merged, the leftmost first, until none is left.
This implementation merges a pair as soon as no other merge can preempt it, which is
tested for all pairs of all words at once: even a word of a million bytes takes few
rounds.

A pair (a, b) of rank r is preempted if a neighbor consumes a or b in a merge of lower
rank. On the right of the pair (a, b), the preempting merge is (b, X), where X is the
token that follows b when (b, X) is merged. If the token c follows b now, X is c or the
result of merging c with tokens that follow it. So a table contains for each pair (b, c)
its rank, and the lowest rank of the merges (b, X) for all X that can result from
merging c with tokens to its right. The token c can only grow by a merge with the token
that follows it, which is tested in the same way for that pair, and so on. The test for
tokens on the left of the pair is symmetric.

Merging a pair earlier than the sequential algorithm does not change the result if every
pair that contains the merged piece has a higher rank, as in all trained vocabularies. A
merge whose result is part of a pair of lower rank is deferred: it is applied only where
it is the leftmost merge of the lowest rank in its word.
"""

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.ragged_rows import split_rows
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET

# Three ranks are packed into one int64.
_SHIFTS = (42, 21, 0)
_NEVER = (1 << 21) - 1


def _packed(*ranks: int) -> int:
    return sum(rank << shift for rank, shift in zip(ranks, _SHIFTS, strict=True))


_NO_PAIR = -1
_NO_RANKS = _packed(_NEVER, _NEVER, _NEVER)


class PairMerger(tf.Module):
    """Merges the bytes of words into the pieces of a vocabulary.

    Args:
        vocabulary: The pieces in the order of their ids, in GPT-2's alphabet.
        merges: Pairs of pieces, by rank. Of duplicate pairs, the last one is used.

    Raises:
        ArtifactError: There are more than two million merges.

    Example:
    >>> merger = PairMerger([*ALPHABET, "bc", "abc"], [("b", "c"), ("a", "bc")])
    >>> letters = tf.constant(list(b"abcbc"), tf.uint8)
    >>> merger(letters, owners=tf.constant([0, 0, 0, 1, 1]), count=2).to_list()
    [[257], [256]]
    """

    def __init__(
        self, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(name="pair_merger")
        if len(merges) >= _NEVER:
            raise ArtifactError(
                f"merges: {len(merges)} were found, but only {_NEVER - 1} can be held. "
                "Use a smaller vocabulary"
            )
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        self._factor = len(vocabulary)
        self._byte_ids = tf.constant([ids[byte] for byte in ALPHABET], tf.int32)
        # One more entry than merges, for non-pairs.
        self._made = tf.constant([*(ids[a + b] for a, b in merges), 0], tf.int32)
        table = _rank_table(merges)
        # An entry for non-pairs, so that the table is not empty.
        keys = [_NO_PAIR, *(ids[a] * self._factor + ids[b] for a, b in table)]
        packed = [_NO_RANKS, *(_packed(*ranks) for ranks in table.values())]
        self._ranks = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(keys, tf.int64), tf.constant(packed, tf.int64)
            ),
            default_value=_NO_RANKS,
        )
        waiting = _waiting(merges)
        self._some_wait = any(waiting)
        self._waiting = tf.constant(waiting, tf.bool)

    def __call__(
        self, values: tf.Tensor, owners: tf.Tensor, count: tf.Tensor | int
    ) -> tf.RaggedTensor:
        """Returns the ids of the pieces of words.

        Args:
            values: uint8 (B,). The concatenated bytes of all words.
            owners: int32 (B,). Index of the word of each byte, ascending.
            count: The number of words.

        Returns:
            int32 (count, None).
        """

        def one_round(
            number: tf.Tensor,
            tokens: tf.Tensor,
            owner: tf.Tensor,
            place: tf.Tensor,
            settled: tf.Tensor,
        ) -> list[tf.Tensor]:
            rank, to_right, to_left = self._look_up(tokens, owner)
            lowest = tf.math.unsorted_segment_min(rank, owner, count)
            lowest = tf.gather_nd(lowest, owner[:, tf.newaxis])
            done = tf.where(tf.equal(lowest, _NEVER))
            settled = tf.tensor_scatter_nd_update(
                settled,
                tf.gather_nd(place, done)[:, tf.newaxis],
                tf.gather_nd(tokens, done),
            )
            joins = _can_be_joined(rank, to_right, to_left, lowest, number)
            if self._some_wait:
                joins &= self._need_not_wait(rank, lowest, owner, place, count)
            merge = tf.minimum(rank, tf.size(self._made) - 1)[:, tf.newaxis]
            tokens = tf.where(joins, tf.gather_nd(self._made, merge), tokens)
            kept = tf.where((lowest < _NEVER) & tf.logical_not(_previous(joins, False)))
            rest = [tf.gather_nd(values, kept) for values in (tokens, owner, place)]
            return [number + 1, *rest, settled]

        size = tf.size(values)
        tokens = tf.gather_nd(self._byte_ids, tf.cast(values, tf.int32)[:, tf.newaxis])
        any_size = tf.TensorShape([None])
        *_, settled = tf.while_loop(
            lambda _, tokens, *__: tf.size(tokens) > 0,
            one_round,
            [0, tokens, owners, tf.range(size), tf.fill([size], -1)],
            shape_invariants=[tf.TensorShape([]), *[any_size] * 4],
        )
        is_piece = settled >= 0
        lengths = tf.math.unsorted_segment_sum(
            tf.cast(is_piece, tf.int64), owners, count
        )
        pieces = tf.gather_nd(settled, tf.where(is_piece))
        return split_rows(pieces, lengths)

    def _look_up(self, tokens: tf.Tensor, owner: tf.Tensor) -> list[tf.Tensor]:
        """Looks up the `_rank_table` ranks of adjacent pairs, int32 (T,) each."""
        left = tf.cast(tokens, tf.int64)
        pairs = left * self._factor + _next(left, 0)
        is_pair = tf.equal(owner, _next(owner, -1))
        packed = self._ranks.lookup(tf.where(is_pair, pairs, _NO_PAIR))
        return [
            tf.cast(
                tf.bitwise.bitwise_and(tf.bitwise.right_shift(packed, shift), _NEVER),
                tf.int32,
            )
            for shift in np.array(_SHIFTS, np.int64)
        ]

    def _need_not_wait(
        self,
        rank: tf.Tensor,
        lowest: tf.Tensor,
        owner: tf.Tensor,
        place: tf.Tensor,
        count: tf.Tensor | int,
    ) -> tf.Tensor:
        is_lowest = tf.equal(rank, lowest)
        candidates = tf.where(is_lowest, place, tf.int32.max)
        first = tf.math.unsorted_segment_min(candidates, owner, count)
        is_first = is_lowest & tf.equal(place, tf.gather(first, owner))
        last_rank = tf.size(self._waiting) - 1
        return is_first | ~tf.gather(self._waiting, tf.minimum(rank, last_rank))


def _can_be_joined(
    rank: tf.Tensor,
    to_right: tf.Tensor,
    to_left: tf.Tensor,
    lowest: tf.Tensor,
    steps: tf.Tensor,
) -> tf.Tensor:
    """Returns whether each token can now be merged with the next token, bool (T,)."""
    # Lower bounds of the ranks of merges of the left token of a pair with its
    # successor, and of the right token with its predecessor.
    rightwards, leftwards = tf.minimum(rank, to_right), tf.minimum(rank, to_left)

    def look_further(
        steps: tf.Tensor, rightwards: tf.Tensor, leftwards: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        further_right = tf.maximum(to_right, _next(rightwards, _NEVER))
        further_left = tf.maximum(to_left, _previous(leftwards, _NEVER))
        return (
            steps - 1,
            tf.minimum(rank, further_right),
            tf.minimum(rank, further_left),
        )

    _, rightwards, leftwards = tf.while_loop(
        lambda steps, *_: steps > 0, look_further, [steps, rightwards, leftwards]
    )
    is_lowest = tf.equal(rank, lowest)
    open_right = is_lowest | (_next(rightwards, _NEVER) >= rank)
    open_left = is_lowest | (_previous(leftwards, _NEVER) > rank)
    # In a run of equal tokens every other pair is merged, if the first one can be.
    is_pair = rank < _NEVER
    repeats = tf.where(is_pair & tf.equal(rank, _previous(rank, _NEVER)))
    rows, in_row = tf.unique(repeats[:, 0] - tf.range(tf.size(repeats, tf.int64)))
    row_start = tf.math.unsorted_segment_min(repeats, in_row, tf.size(rows)) - 1
    row_start = tf.gather(row_start, in_row)
    is_even = tf.equal((repeats - row_start)[:, 0] % 2, 0)
    follows = is_even & tf.gather_nd(open_left, row_start)
    open_left = tf.tensor_scatter_nd_update(open_left, repeats, follows)
    return is_pair & open_left & open_right


def _next(values: tf.Tensor, last: int | bool) -> tf.Tensor:
    return tf.concat([values[1:], tf.constant([last], values.dtype)], axis=0)


def _previous(values: tf.Tensor, first: int | bool) -> tf.Tensor:
    return tf.concat([tf.constant([first], values.dtype), values[:-1]], axis=0)


def _rank_table(
    merges: Sequence[tuple[str, str]],
) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Returns each pair's rank, and lowest ranks if its right or left piece grows."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    # The pieces that a piece can be made from, at its beginning or its end.
    begins: dict[str, set[str]] = {}
    ends: dict[str, set[str]] = {}
    for a, b in sorted(ranks, key=lambda pair: len(pair[0]) + len(pair[1])):
        begins.setdefault(a + b, set()).update((a,), begins.get(a, ()))
        ends.setdefault(a + b, set()).update((b,), ends.get(b, ()))
    to_right: dict[tuple[str, str], int] = {}
    to_left: dict[tuple[str, str], int] = {}
    # In ascending order, so that `setdefault` keeps the lowest rank.
    for (a, b), rank in sorted(ranks.items(), key=itemgetter(1)):
        for origin in begins.get(b, ()):
            to_right.setdefault((a, origin), rank)
        for origin in ends.get(a, ()):
            to_left.setdefault((origin, b), rank)
    return {
        pair: (
            ranks.get(pair, _NEVER),
            to_right.get(pair, _NEVER),
            to_left.get(pair, _NEVER),
        )
        for pair in ranks | to_right | to_left
    }


def _waiting(merges: Sequence[tuple[str, str]]) -> list[bool]:
    """Returns whether each merge makes a piece that a merge of lower rank needs."""
    first_use: dict[str, int] = {}
    for pair, rank in {pair: rank for rank, pair in enumerate(merges)}.items():
        for piece in pair:
            first_use[piece] = min(rank, first_use.get(piece, _NEVER))
    return [first_use.get(a + b, _NEVER) < rank for rank, (a, b) in enumerate(merges)]
