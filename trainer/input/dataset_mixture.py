"""Mixture of record streams: the schedule that assigns each batch to a stream.

The schedule consists of cycles. Each cycle is shuffled by (seed, cycle), and at its end
every stream has had its share of all batches so far, rounded to the nearest integer. So
the number of batches that precede a given batch in each stream is computed directly,
and a training resumes in the middle of the schedule without iterating over it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

FOREVER = 2**31
# TensorFlow makes this module at import, where pyright cannot see it.
_experimental = tf.random.experimental  # pyright: ignore[reportAttributeAccessIssue]
# For functions that tf.data calls: none of ours needs AutoGraph's conversion, which
# took 0.4 of 0.54 s until tiny_masked's first batch.
without_autograph = tf.autograph.experimental.do_not_convert
_LONGEST_CYCLE = 1000.0


def shuffled(values: tf.Tensor, *seeds: int | tf.Tensor) -> tf.Tensor:
    """Shuffles values; the order is a function of two seeds.

    The shuffle is stateless, because the order of tf.data's own shuffle depends on the
    global seed and on the number of earlier iterations over the dataset.
    """
    seed = tf.stack([tf.cast(one, tf.int64) for one in seeds])
    return _experimental.stateless_shuffle(values, seed)


@dataclass(frozen=True)
class DatasetMixture:
    """An infinite schedule of streams.

    Attributes:
        rates: Batches of each stream in a cycle, on average.
        seed: The run's seed.

    Example:
    >>> turns = DatasetMixture((2.0, 1.0), seed=0)
    >>> turns.before(6).tolist()
    [4, 2]
    >>> sorted(turns.order(3).take(3).as_numpy_iterator())
    [np.int64(0), np.int64(0), np.int64(1)]
    """

    rates: tuple[float, ...]
    seed: int

    @classmethod
    def by_share(
        cls, shares: Sequence[float], batches: float, seed: int
    ) -> "DatasetMixture":
        """Builds a mixture whose batches are proportional to given shares.

        Args:
            shares: Share of each stream; positive numbers.
            batches: Number of batches in an epoch of all streams together. A cycle has
                this number of batches, so that each stream advances at an even pace,
                but at most 1,000 batches, as a cycle is shuffled as a whole.
            seed: The run's seed.
        """
        cycle = min(max(batches, 1.0), _LONGEST_CYCLE)
        total = sum(shares)
        return cls(tuple(cycle * share / total for share in shares), seed)

    def before(self, batch: int) -> np.ndarray:
        """Number of each stream's batches before a batch: int64 (streams,)."""
        cycle, turns = self._enter(batch)
        streams = self._cycle(tf.constant(cycle, tf.int64)).numpy()[:turns]
        within = np.bincount(streams, minlength=len(self.rates))
        return self._by_the_end(cycle).numpy() + within

    def order(self, batch: int) -> tf.data.Dataset:
        """The stream of each batch from `batch` on: infinite int64 scalars."""
        cycle, turns = self._enter(batch)
        cycles = tf.data.Dataset.range(cycle, FOREVER)
        return cycles.flat_map(
            without_autograph(
                lambda cycle: tf.data.Dataset.from_tensor_slices(self._cycle(cycle))
            )
        ).skip(turns)

    def _enter(self, batch: int) -> tuple[int, int]:
        """The cycle that a batch is in, and its index in that cycle."""
        cycle = int(batch / sum(self.rates))
        # Rounding may have moved the cycle's ends by some batches.
        while self._turns(cycle) > batch:
            cycle -= 1
        while self._turns(cycle + 1) <= batch:
            cycle += 1
        return cycle, batch - self._turns(cycle)

    def _turns(self, cycles: int) -> int:
        return int(self._by_the_end(cycles).numpy().sum())

    def _by_the_end(self, cycles: int | tf.Tensor) -> tf.Tensor:
        """Batches of each stream in the first `cycles` cycles: int64 (streams,)."""
        turns = tf.constant(self.rates, tf.float64) * tf.cast(cycles, tf.float64)
        return tf.cast(tf.floor(turns + 0.5), tf.int64)

    def _cycle(self, cycle: tf.Tensor) -> tf.Tensor:
        """The stream of each batch of a cycle: int64 (batches,)."""
        # On the CPU, where tf.data runs, also if it is called outside of tf.data.
        with tf.device("CPU"):
            counts = self._by_the_end(cycle + 1) - self._by_the_end(cycle)
            streams = tf.range(len(self.rates), dtype=tf.int64)
            return shuffled(tf.repeat(streams, counts), self.seed, cycle)
