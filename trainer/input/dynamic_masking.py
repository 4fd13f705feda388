"""Dynamic masking: different tokens are masked each time a record is read.

The random numbers depend on the seed and the record's position in the whole training,
so batch n has the same masks however often a training was resumed. Tokens are selected
by the algorithm of `transbeam.pipeline.objectives.base.mask_selection`, which is
reimplemented here as a TensorFlow function ([Liu et al.,
2019](https://arxiv.org/abs/1907.11692), 4.1).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.randomness import GOLDEN
from transbeam.pipeline.objectives.base.mask_selection import stopping_chances
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.objectives.masked import Hiding
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer

Tensors = dict[str, tf.Tensor]


@dataclass(frozen=True, eq=False)
class DynamicMasking:
    """Masks tokens of batches.

    Attributes:
        config: The fraction of tokens to mask, and their replacements.
        hiding: The seed, the id of the mask token, and the ids of ordinary tokens, from
            which random replacements are drawn. The attribute `starts_word` of `Hiding`
            is not used, as the records contain word ids.
    """

    config: MaskedConfig
    hiding: Hiding

    def __call__(self, records: Tensors, places: tf.Tensor) -> Tensors:
        """Masks tokens of a batch.

        Args:
            records: The features that `transbeam.pipeline.objectives.masked.features`
                lists for dynamic masking, each (batch, L).
            places: int64 (batch,). The position of each record among all records that
                its stream yields, plus an offset that differs between streams.

        Returns:
            The features of `transbeam.pipeline.objectives.masked.masked_features`, each
            (batch, …).
        """
        config, words = self.config, records["word_ids"]
        length = _length(words)
        slots = config.predictions_per_record(length)
        content = tf.math.count_nonzero(words, axis=1)
        wanted = tf.round(tf.cast(content, tf.float64) * config.masking_fraction)
        wanted = tf.clip_by_value(tf.cast(wanted, tf.int64), 1, slots)
        wanted = tf.minimum(wanted, content)

        bits = _bits(self.hiding.key("choose"), places, length)
        if config.ngram == 1 and not config.whole_words:
            columns = _first_columns(_random_order(words > 0, bits), wanted, slots)
        else:
            units = self._units(words, records["document_ids"], places)
            columns = _choose(units, bits, wanted, slots)
        used = columns < length
        columns = tf.where(used, columns, 0)

        real = tf.gather(records["token_ids"], columns, batch_dims=1)
        bits = _bits(self.hiding.key("show"), places, length)
        shown = self._shown(real, tf.gather(bits, columns, batch_dims=1))
        rows = tf.broadcast_to(
            tf.range(tf.shape(columns)[0])[:, tf.newaxis], tf.shape(columns)
        )
        cells = tf.stack([rows, columns], axis=-1)
        token_ids = tf.tensor_scatter_nd_update(
            records["token_ids"], cells[used], shown[used]
        )
        return {
            "token_ids": token_ids,
            "document_ids": records["document_ids"],
            "position_ids": records["position_ids"],
            "masked_positions": columns,
            "masked_ids": tf.where(used, real, 0),
            "masked_weights": tf.cast(used, tf.float32),
        }

    def _units(
        self, words: tf.Tensor, document_ids: tf.Tensor, places: tf.Tensor
    ) -> tf.Tensor:
        if self.config.ngram == 1:
            return words
        bits = _bits(self.hiding.key("ngram"), places, _length(words))
        return _join_words(words, document_ids, _to_unit(bits), self.config.ngram)

    def _shown(self, real: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
        """The replacements of masked tokens: mask, random or unchanged ids."""
        config = self.config
        upper = tf.bitwise.right_shift(bits, _uint64(32))
        draw = tf.cast(upper, tf.float64) * 2.0**-32
        ordinary = self.hiding.ordinary_ids
        lower = tf.bitwise.bitwise_and(bits, _uint64(2**32 - 1))
        piece = tf.bitwise.right_shift(lower * _uint64(len(ordinary)), _uint64(32))
        random_ids = tf.gather(ordinary, tf.cast(piece, tf.int64))
        as_random = draw < config.mask_fraction + config.random_fraction
        shown = tf.where(as_random, random_ids, real)
        return tf.where(draw < config.mask_fraction, self.hiding.mask_id, shown)


def dynamic_masking(run: RunConfig, data: Path) -> DynamicMasking | None:
    """Builds the dynamic masking of a run; None if the run does not use it.

    Args:
        run: The run.
        data: The folder of the run's records and of their tokenizer.
    """
    config = run.objective
    if not isinstance(config, MaskedConfig) or config.masking == "static":
        return None
    tokenizer = load_tokenizer(data / "tokenizer")
    mask_id = needed(tokenizer, run, "mask")
    return DynamicMasking(config, Hiding(run.seed, mask_id, tokenizer.ordinary_ids))


def _length(values: tf.Tensor) -> int:
    """The static length L of a (batch, L) tensor of records."""
    return int(values.shape[1])  # pyright: ignore[reportArgumentType]


def _uint64(number: int) -> tf.Tensor:
    return tf.constant(number, tf.uint64)


def _mix(bits: tf.Tensor) -> tf.Tensor:
    """`transbeam.pipeline.documents.randomness.mix`."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        shifted = tf.bitwise.right_shift(bits, _uint64(shift))
        bits = tf.bitwise.bitwise_xor(bits, shifted) * _uint64(factor)
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _uint64(31)))


def _bits(key: int, places: tf.Tensor, length: int) -> tf.Tensor:
    """Computes random bits as `transbeam.pipeline.documents.randomness.uniform` does.

    The record's position is used in place of the document's key, and the column as the
    counter.
    """
    by_record = _mix(tf.bitwise.bitwise_xor(tf.cast(places, tf.uint64), _uint64(key)))
    by_column = np.arange(1, length + 1, dtype=np.uint64) * GOLDEN
    return _mix(by_record[:, tf.newaxis] + by_column)


def _to_unit(bits: tf.Tensor) -> tf.Tensor:
    upper = tf.bitwise.right_shift(bits, _uint64(11))
    return tf.cast(upper, tf.float64) * 2.0**-53


def _join_words(
    words: tf.Tensor, document_ids: tf.Tensor, draws: tf.Tensor, longest: int
) -> tf.Tensor:
    """Vectorized `mask_selection.join_words`: (batch, L), all columns at once.

    The number of words of the current n-gram up to a column depends on the same number
    up to the previous column. So each column defines a function of the previous
    column's number, and the functions of all columns are composed by a parallel prefix
    scan, whose steps cover twice as many columns each time.
    """
    length = _length(words)

    def before(values: tf.Tensor) -> tf.Tensor:
        return tf.pad(values[:, :-1], [[0, 0], [1, 0]])

    new_word = (words > 0) & (words != before(words))
    must_end = (before(words) == 0) | (document_ids != before(document_ids))
    run = tf.range(longest + 1)
    stop = tf.gather(tf.constant(stopping_chances(longest)), tf.maximum(run, 1) - 1)
    ends = tf.expand_dims(must_end, -1) | (tf.expand_dims(draws, -1) < stop)
    # (batch, L, longest + 1): the words of the unit after a column, by those before it.
    after = tf.where(tf.expand_dims(new_word, -1), tf.where(ends, 1, run + 1), run)
    for distance in (2**power for power in range((length - 1).bit_length())):
        unchanged = tf.broadcast_to(run, tf.shape(after[:, :distance]))
        earlier = tf.concat([unchanged, after[:, :-distance]], axis=1)
        after = tf.gather(after, earlier, batch_dims=2)
    runs = after[:, :, 0]
    units = tf.cumsum(tf.cast(new_word & (runs == 1), tf.int32), axis=1)
    return tf.where(words > 0, units, 0)


def _random_order(is_choice: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Batched `mask_selection.random_order`: int32 (batch, L)."""
    length = _length(bits)
    width = max(1, (length - 1).bit_length())
    scores = tf.cast(tf.bitwise.right_shift(bits, _uint64(33)), tf.int64)
    scores = tf.bitwise.bitwise_and(scores, 2**31 - 2**width)
    scores += tf.range(length, dtype=tf.int64)
    return tf.argsort(tf.where(is_choice, scores, scores + 2**31), axis=1)


def _choose(
    units: tf.Tensor, bits: tf.Tensor, wanted: tf.Tensor, slots: int
) -> tf.Tensor:
    """Batched `mask_selection.choose`: int32 (batch, slots)."""
    length = _length(units)
    previous = tf.pad(units[:, :-1], [[0, 0], [1, 0]])
    starts = (units > 0) & (units != previous)
    order = _random_order(starts, bits)

    # Each unit gets a number that is unique in the batch.
    batch = tf.shape(units)[0]
    numbers = units + tf.range(batch)[:, tf.newaxis] * (length + 1)
    total = batch * (length + 1)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(units), numbers, total)
    in_order = tf.gather(numbers, order, batch_dims=1)
    is_unit = tf.gather(starts, order, batch_dims=1)
    sizes = tf.where(is_unit, tf.gather(sizes, in_order), 0)
    goal = tf.cast(wanted, tf.int32)

    # One unit after another, until every record has enough tokens or no more units.
    sizes = tf.transpose(sizes)
    last = tf.reduce_max(tf.math.count_nonzero(starts, axis=1, dtype=tf.int32))

    def wants_more(unit: tf.Tensor, total: tf.Tensor, _: tf.TensorArray) -> tf.Tensor:
        return (unit < last) & tf.reduce_any(total < goal)

    def step(
        unit: tf.Tensor, total: tf.Tensor, taken: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        room = tf.where(total == 0, slots, goal - total)
        fits = (sizes[unit] > 0) & (sizes[unit] <= room)
        return (
            unit + 1,
            tf.where(fits, total + sizes[unit], total),
            taken.write(unit, fits),
        )

    nothing = tf.TensorArray(tf.bool, size=length, element_shape=[None])
    start = (0, tf.zeros_like(goal), nothing)
    taken = tf.transpose(tf.while_loop(wants_more, step, start)[2].stack())
    is_chosen = tf.math.unsorted_segment_max(tf.cast(taken, tf.int32), in_order, total)
    chosen = (units > 0) & (tf.gather(is_chosen, numbers) > 0)
    columns = tf.where(chosen, tf.range(length), length)
    return tf.sort(columns, axis=1)[:, :slots]


def _first_columns(order: tf.Tensor, wanted: tf.Tensor, slots: int) -> tf.Tensor:
    """Batched `mask_selection.first_columns`: int32 (batch, slots)."""
    used = tf.range(slots, dtype=tf.int64) < wanted[:, tf.newaxis]
    return tf.sort(tf.where(used, order[:, :slots], _length(order)), axis=1)
