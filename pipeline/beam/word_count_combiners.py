"""Adding word counts up: what a vocabulary is learned from. Needs no TensorFlow.

The words are added up in slices of all words, so no worker holds more than a slice of
a large corpus's words until the rarest have been let go.
"""

import zlib
from collections import Counter
from collections.abc import Iterable

import apache_beam as beam

SLICES = 16
# Rarer words than the first two million teach a vocabulary nothing.
_WORDS_PER_SLICE = 2_000_000 // SLICES


def sliced(words: Counter[str]) -> dict[int, Counter[str]]:
    """Deals words out to slices, each word always to the same.

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
    """Adds word counts."""

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
    """Adds the counts of one slice and lets the rarest words go if they are too many.

    All counts of a slice come together before any is dropped, so what is dropped does
    not depend on who added what.
    """

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        if len(accumulator) <= _WORDS_PER_SLICE:
            return accumulator
        ranked = sorted(accumulator.items(), key=lambda item: (-item[1], item[0]))
        return Counter(dict(ranked[:_WORDS_PER_SLICE]))
