"""Whose turn it is: which stream of records gives which batch of a training.

Turns come in cycles. Within one they are stirred by (seed, cycle), and by the end of
each every stream has had its share of all turns so far, to the nearest whole number. So
how many turns a stream had before a batch is arithmetic, and a training that stopped
goes on in the middle of the order without going through it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

FOREVER = 2**31
# TensorFlow makes this module at import, where pyright cannot see it.
_experimental = tf.random.experimental  # pyright: ignore[reportAttributeAccessIssue]
# For what tf.data calls. Nothing of ours needs its Python read, rewritten and imported
# once more, as tf.data would: that took 0.4 of 0.54 s until tiny_masked's first batch.
as_written = tf.autograph.experimental.do_not_convert
_LONGEST_CYCLE = 1000.0


def stirred(values: tf.Tensor, *seeds: int | tf.Tensor) -> tf.Tensor:
    """Values in another order, which is a function of two seeds.

    Stateless, because the order of tf.data's own shuffle depends on the global seed and
    on how often a dataset has been gone through.
    """
    seed = tf.stack([tf.cast(one, tf.int64) for one in seeds])
    return _experimental.stateless_shuffle(values, seed)


@dataclass(frozen=True)
class DatasetMixture:
    """An order of streams without end.

    Attributes:
        rates: Turns of each stream in a cycle, on average.
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
        """Turns in proportion to shares.

        Args:
            shares: Of each stream; positive numbers.
            batches: How many make an epoch of all streams together. A cycle is as
                long, so that each stream goes through its records at an even pace, but
                it has 1,000 turns at most, which are stirred at once.
            seed: The run's seed.
        """
        cycle = min(max(batches, 1.0), _LONGEST_CYCLE)
        total = sum(shares)
        return cls(tuple(cycle * share / total for share in shares), seed)

    def before(self, batch: int) -> np.ndarray:
        """int64 (streams,). The turns each stream has had before a batch."""
        cycle, turns = self._enter(batch)
        streams = self._cycle(tf.constant(cycle, tf.int64)).numpy()[:turns]
        within = np.bincount(streams, minlength=len(self.rates))
        return self._by_the_end(cycle).numpy() + within

    def order(self, batch: int) -> tf.data.Dataset:
        """The stream of each batch from `batch` on: int64 scalars without end."""
        cycle, turns = self._enter(batch)
        cycles = tf.data.Dataset.range(cycle, FOREVER)
        return cycles.flat_map(
            as_written(
                lambda cycle: tf.data.Dataset.from_tensor_slices(self._cycle(cycle))
            )
        ).skip(turns)

    def _enter(self, batch: int) -> tuple[int, int]:
        """The cycle that a batch is in, and the turns before it in that cycle."""
        cycle = int(batch / sum(self.rates))
        # Roundings may have moved its ends by some turns.
        while self._turns(cycle) > batch:
            cycle -= 1
        while self._turns(cycle + 1) <= batch:
            cycle += 1
        return cycle, batch - self._turns(cycle)

    def _turns(self, cycles: int) -> int:
        return int(self._by_the_end(cycles).numpy().sum())

    def _by_the_end(self, cycles: int | tf.Tensor) -> tf.Tensor:
        """int64 (streams,). The turns of each stream in so many cycles."""
        turns = tf.constant(self.rates, tf.float64) * tf.cast(cycles, tf.float64)
        return tf.cast(tf.floor(turns + 0.5), tf.int64)

    def _cycle(self, cycle: tf.Tensor) -> tf.Tensor:
        """int64 (turns,). The streams of a cycle in the order of their turns."""
        # On the CPU, where tf.data works, also when it is called beside it.
        with tf.device("CPU"):
            counts = self._by_the_end(cycle + 1) - self._by_the_end(cycle)
            streams = tf.range(len(self.rates), dtype=tf.int64)
            return stirred(tf.repeat(streams, counts), self.seed, cycle)
