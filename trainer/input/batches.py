"""Batches of records, in an order that is a function of the seed alone.

The position in the order of batches is the number of batches read so far. So an
interrupted training resumes at exactly the next batch, also with another number of
workers.

The records of each length in each data set form a stream
(`transbeam.trainer.input.streams`). Each batch is drawn from one stream; a fixed
schedule determines from which one (`transbeam.trainer.input.dataset_mixture`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.pipeline.records.features import Feature, differences
from transbeam.pipeline.records.manifest import FILE, Manifest
from transbeam.pipeline.records.tf_example import parse_records
from transbeam.trainer.input.dataset_mixture import DatasetMixture, without_autograph
from transbeam.trainer.input.dynamic_masking import DynamicMasking
from transbeam.trainer.input.streams import RecordStream, make_streams

# Feature name -> (B, ...).
Batch = dict[str, tf.Tensor]
# One data set, or several, each with its relative weight among the batches.
Data = Manifest | Sequence[tuple[Manifest, float]]

# More than the records of any stream; keeps the positions of two streams apart.
_STREAM = 2**40


def check_contract(manifest: Manifest, expected: tuple[Feature, ...]) -> None:
    """Checks that records have the features that the model expects.

    Raises:
        ArtifactError: Features or shapes differ.
    """
    if wrong := differences(manifest.features, expected):
        raise ArtifactError(
            f"{manifest.folder / FILE}: the records do not fit this configuration:\n  "
            + "\n  ".join(wrong)
            + "\nMake them again with `transbeam data`, or use their configuration"
        )


def training_batches(
    data: Data,
    *,
    batch_size: int,
    shuffle_records: int,
    seed: int,
    batches_read: int = 0,
    masking: DynamicMasking | None = None,
    accumulation: int = 1,
    worker: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Infinite training batches: each epoch has every record once, in a new order.

    Record lengths and data sets have separate epochs. The number of batches from a data
    set is proportional to the data set's weight; within a data set, the number of
    batches of each record length is proportional to the number of batches that the
    records of that length fill in an epoch. A batch of shorter records has more
    records, so that all batches have about as many tokens.

    Resuming costs about the same at any batch: each stream opens the files it was
    reading, eight at most, and skips their first records unparsed.

    Args:
        data: The records; or several data sets with relative weights.
        batch_size: Records per batch, for the longest records; a batch may straddle two
            epochs.
        shuffle_records: Records that are held in memory and shuffled together, over all
            streams.
        seed: The run's seed.
        batches_read: Number of batches already read, after which to resume.
        masking: Dynamic masking, for records without static masks.
        accumulation: Number of micro-batches into which every batch can be split.
        worker: This worker's rank and the number of workers: worker w gets the w-th
            part of each batch's rows. Batches are the same for any number of workers
            that divides `batch_size`. If there are shorter records, this holds only for
            1, 2, 4 and 8 workers, since other numbers may round the sizes of their
            batches differently.

    Returns:
        A dataset of dicts: feature name -> (rows of this worker, ...).

    Raises:
        ArtifactError: A data set has no training record, or its features differ from
            those of the first data set.
        ConfigError: A weight is not a positive number, or the workers cannot share a
            batch equally.
    """
    workers = worker[1]
    streams, shares = _streams(data, batch_size, accumulation, workers)
    turns = DatasetMixture.by_share(
        shares, sum(stream.batches for stream in streams), seed
    )
    records = sum(stream.records for stream in streams)

    view = _View(masking, *worker)
    parts = []
    for stream, read in zip(streams, turns.before(batches_read).tolist(), strict=True):
        in_memory = math.ceil(shuffle_records * stream.records / records)
        pieces = stream.epochs(in_memory, seed, read * stream.batch_size)
        batches = pieces.rebatch(stream.batch_size, drop_remainder=True)
        parts.append(view.apply(stream, batches.enumerate(read)))
    if len(parts) == 1:
        return _ready(parts[0])
    order = turns.order(batches_read)
    return _ready(tf.data.Dataset.choose_from_datasets(parts, order))


def rows_of_batches(
    data: Data, batch_size: int, accumulation: int, workers: int
) -> list[int]:
    """Records per batch of each stream; equal sizes result in equal batches.

    Args:
        data: The records, as in `training_batches`.
        batch_size: Records per batch, for the longest records.
        accumulation: Number of micro-batches into which every batch can be split.
        workers: Number of workers that share each batch.
    """
    streams, _ = _streams(data, batch_size, accumulation, workers)
    return [stream.batch_size for stream in streams]


def _streams(
    data: Data, batch_size: int, accumulation: int, workers: int
) -> tuple[list[RecordStream], list[float]]:
    """The streams of all data sets, and the share of batches of each stream."""
    sets = [(data, 1.0)] if isinstance(data, Manifest) else list(data)
    _check_sets(sets)
    total = sum(weight for _, weight in sets)
    streams: list[RecordStream] = []
    shares: list[float] = []
    for manifest, weight in sets:
        found = make_streams(
            manifest,
            "train",
            batch_size,
            workers=workers,
            parts=accumulation,
            first=len(streams),
        )
        epoch = sum(stream.batches for stream in found)
        shares += [weight / total * s.batches / epoch for s in found]
        streams += found
    return streams, shares


def validation_batches(
    manifest: Manifest,
    batch_size: int,
    masking: DynamicMasking | None = None,
    worker: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Batches of one pass over the validation split, a record from each shard in turn.

    Batches of different lengths alternate evenly, so the first batches are a fair
    sample. The last batch of each length may be short, and may have no row for some
    workers. Dynamic masking masks the same tokens in every pass over the split.

    Args:
        manifest: The records.
        batch_size: Records per batch, for the longest records; batches of shorter
            records have more records.
        masking: Dynamic masking, for records without static masks.
        worker: This worker's rank and the number of workers.

    Returns:
        A dataset of known length, of dicts: feature name -> (rows, ...).

    Raises:
        ArtifactError: There is no validation record.
        ConfigError: The workers cannot share a batch equally.
    """
    view = _View(masking, *worker)
    streams = make_streams(manifest, "validation", batch_size, workers=worker[1])
    parts = [
        view.apply(stream, stream.once().batch(stream.batch_size).enumerate())
        for stream in streams
    ]
    order = _spread(streams)
    batches = parts[0]
    if len(parts) > 1:
        choices = tf.data.Dataset.from_tensor_slices(order)
        batches = tf.data.Dataset.choose_from_datasets(parts, choices)
    # Stated, because Keras warns at the end of a dataset of unknown length.
    return _ready(batches).apply(tf.data.experimental.assert_cardinality(len(order)))


def _spread(streams: Sequence[RecordStream]) -> np.ndarray:
    """The stream of each batch, with streams evenly interleaved: int64 (batches,)."""
    numbers, places = [], []
    for stream in streams:
        count = math.ceil(stream.batches)
        numbers.append(np.full(count, stream.number))
        places.append((np.arange(count) + 0.5) / count)
    return np.concatenate(numbers)[np.argsort(np.concatenate(places), kind="stable")]


def validation_order(manifest: Manifest, batch_size: int) -> list[tuple[str, int]]:
    """Locates the record of each row of `validation_batches`, for a single worker.

    Returns:
        The shard's path and the record's number in it, for all rows of all batches.

    Raises:
        ArtifactError: There is no validation record.
    """
    streams = make_streams(manifest, "validation", batch_size)
    left = [stream.places() for stream in streams]
    order: list[tuple[str, int]] = []
    for number in _spread(streams).tolist():
        size = streams[number].batch_size
        order += left[number][:size]
        left[number] = left[number][size:]
    return order


def _check_sets(sets: Sequence[tuple[Manifest, float]]) -> None:
    weights = [weight for _, weight in sets]
    if not sets or not all(0 < weight < math.inf for weight in weights):
        raise ConfigError(
            f"the weights of the data sets are {weights}: expected a positive number "
            "for each. Leave out a data set that is to give nothing"
        )
    for manifest, _ in sets[1:]:
        check_contract(manifest, sets[0][0].features)


@dataclass(frozen=True)
class _View:
    """A worker's rows of the batches, parsed and masked."""

    masking: DynamicMasking | None
    worker: int
    workers: int

    def apply(self, stream: RecordStream, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Parses the worker's rows of a stream's numbered batches."""

        @without_autograph
        def parse(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
            # For batches of constant size, the number of rows is static.
            rows = serialized.shape[0] or tf.size(serialized)
            begin = rows * self.worker // self.workers
            end = rows * (self.worker + 1) // self.workers
            batch = parse_records(serialized[begin:end], stream.features)
            if self.masking is None:
                return batch
            place = stream.number * _STREAM + number * stream.batch_size
            return self.masking(batch, place + tf.range(begin, end, dtype=tf.int64))

        return batches.map(parse, num_parallel_calls=2, deterministic=True)


def _ready(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetches batches, in a deterministic order."""
    options = tf.data.Options()
    # Autotune's thread sleeps for ever longer times, and deleting an iterator waits
    # for it.
    options.autotune.enabled = False
    options.deterministic = True
    return batches.prefetch(8).with_options(options)
