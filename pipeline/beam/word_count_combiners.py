"""Sums word counts, which vocabularies are trained on. Needs no TensorFlow.

Words are hashed to slices, so that a worker holds only one slice of a large corpus's
words before the rarest ones are dropped.
"""

import zlib
from collections import Counter
from collections.abc import Iterable

import apache_beam as beam

SLICES = 16
# Words beyond the two million most frequent ones have no effect on a vocabulary.
_WORDS_PER_SLICE = 2_000_000 // SLICES


def sliced(words: Counter[str]) -> dict[int, Counter[str]]:
    """Splits word counts into slices by a hash of the word.

    Example:
    >>> slices = sliced(Counter({"the": 3, "of": 2}))
    >>> sum(slices.values(), Counter()) == Counter({"the": 3, "of": 2})
    True
    """
    slices: dict[int, Counter[str]] = {}
    for word, count in words.items():
        slices.setdefault(zlib.crc32(word.encode()) % SLICES, Counter())[word] = count
    return slices


class AddCounts(beam.CombineFn):
    """Sums word counts."""

    def create_accumulator(self) -> Counter[str]:
        return Counter()

    def add_input(
        self, accumulator: Counter[str], counts: Counter[str]
    ) -> Counter[str]:
        accumulator.update(counts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counter[str]]) -> Counter[str]:
        total: Counter[str] = Counter()
        for accumulator in accumulators:
            total.update(accumulator)
        return total

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        return accumulator


class AddSlices(AddCounts):
    """Sums the counts of one slice and drops the rarest words if there are too many.

    All counts of a slice are summed before any is dropped, so the result does not
    depend on the order of additions.
    """

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        if len(accumulator) <= _WORDS_PER_SLICE:
            return accumulator
        ranked = sorted(accumulator.items(), key=lambda item: (-item[1], item[0]))
        return Counter(dict(ranked[:_WORDS_PER_SLICE]))
