"""Batches of records, in an order that is a function of the seed alone.

The position in that order is one number, the batches read so far, so a training that
stopped can go on at exactly the next batch, also with another number of workers.

The records of each length in each data set are a stream of their own
(`transbeam.trainer.input.streams`); a batch is of one stream, and which one that is has
been settled beforehand (`transbeam.trainer.input.dataset_mixture`).
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
from transbeam.trainer.input.dataset_mixture import DatasetMixture, as_written
from transbeam.trainer.input.dynamic_masking import DynamicMasking
from transbeam.trainer.input.streams import RecordStream, streams_of

# Feature name -> (B, ...).
Batch = dict[str, tf.Tensor]
# One data set, or several with how large a share of the batches each of them gives.
Data = Manifest | Sequence[tuple[Manifest, float]]

# More than any stream reads; keeps the places of records of two streams apart.
_STREAM = 2**40


def check_contract(manifest: Manifest, expected: tuple[Feature, ...]) -> None:
    """Refuses records that the model could not read or would misunderstand.

    Raises:
        ArtifactError: Other features, or other shapes.
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
    """Batches without end: each epoch has every training record once, stirred anew.

    Records of several lengths, and of several data sets, have epochs of their own. A
    data set gives batches in proportion to its weight, and of these each length in
    proportion to its records. Of shorter records a batch has more, so that every batch
    has about as many tokens.

    To enter at a later batch costs about the same anywhere: each stream opens the files
    it was reading, eight at most, and reads over their first records unparsed.

    Args:
        data: The records; or several data sets with their weights, which are relative.
        batch_size: Records per batch, of the longest; a batch may straddle two epochs.
        shuffle_records: How many records are held in memory and stirred at once, of all
            streams together.
        seed: The run's seed.
        batches_read: Where to go on: batches an earlier run has read.
        masking: Hides tokens, if the records have none hidden.
        accumulation: Micro-batches that every batch can be cut into.
        worker: Which of the workers this is, from 0, and how many share each batch:
            worker w gets the w-th part of its rows. The batches are the same for any
            number that divides `batch_size`; with shorter records, for 1, 2, 4 and 8,
            since others may round their batches otherwise.

    Returns:
        A dataset of dicts: feature name -> (rows of this worker, ...).

    Raises:
        ArtifactError: A data set has no training record, or other features than the
            first.
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
    read_before = turns.before(batches_read).tolist()
    for stream, read in zip(streams, read_before, strict=True):
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
    """Records of a batch of each stream: where these are the same, so are the batches.

    Args:
        data: The records, as in `training_batches`.
        batch_size: Records per batch, of the longest.
        accumulation: Micro-batches that every batch can be cut into.
        workers: How many share each batch.
    """
    streams, _ = _streams(data, batch_size, accumulation, workers)
    return [stream.batch_size for stream in streams]


def _streams(
    data: Data, batch_size: int, accumulation: int, workers: int
) -> tuple[list[RecordStream], list[float]]:
    """The streams of all data sets, and the share of the batches that each gives."""
    sets = [(data, 1.0)] if isinstance(data, Manifest) else list(data)
    _check_sets(sets)
    total = sum(weight for _, weight in sets)
    streams: list[RecordStream] = []
    shares: list[float] = []
    for manifest, weight in sets:
        found = streams_of(
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
    """The validation split once, a record from each shard in turn.

    Batches of different lengths alternate, evenly over the whole. The first batches are
    thus a fair sample. The last of each length may be short, even without a row for
    some worker. If tokens have yet to be hidden, they are the same each time.

    Args:
        manifest: The records.
        batch_size: Records per batch, of the longest; more of shorter ones.
        masking: Hides tokens, if the records have none hidden.
        worker: Which of the workers this is, from 0, and how many share each batch.

    Returns:
        A dataset of known length, of dicts: feature name -> (rows, ...).

    Raises:
        ArtifactError: There is no validation record.
        ConfigError: The workers cannot share a batch equally.
    """
    view = _View(masking, *worker)
    streams = streams_of(manifest, "validation", batch_size, workers=worker[1])
    parts = [
        view.apply(stream, stream.once().batch(stream.batch_size).enumerate())
        for stream in streams
    ]
    order = _spread(streams)
    batches = parts[0]
    if len(parts) > 1:
        choices = tf.data.Dataset.from_tensor_slices(order)
        batches = tf.data.Dataset.choose_from_datasets(parts, choices)
    # Stated, because Keras warns at the end of a dataset whose length it cannot tell.
    length = tf.data.experimental.assert_cardinality(len(order))
    return _ready(batches).apply(length)


def _spread(streams: Sequence[RecordStream]) -> np.ndarray:
    """int64 (batches,): which stream each is of, evenly over the whole."""
    numbers, places = [], []
    for stream in streams:
        count = math.ceil(stream.batches)
        numbers.append(np.full(count, stream.number))
        places.append((np.arange(count) + 0.5) / count)
    return np.concatenate(numbers)[np.argsort(np.concatenate(places), kind="stable")]


def validation_order(manifest: Manifest, batch_size: int) -> list[tuple[str, int]]:
    """Which record each row of `validation_batches` is, for one worker.

    Returns:
        The shard's path and the record's number in it, of all rows of all batches.

    Raises:
        ArtifactError: There is no validation record.
    """
    streams = streams_of(manifest, "validation", batch_size)
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
    """What a worker sees of the batches, and how."""

    masking: DynamicMasking | None
    worker: int
    workers: int

    def apply(self, stream: RecordStream, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Parses numbered batches of a stream, after cutting out the worker's rows."""

        @as_written
        def parse(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
            # Of batches that are all of one size, rows are a number and not a tensor.
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
    """Batches made ahead of their use."""
    options = tf.data.Options()
    # Its thread sleeps in ever longer steps, and dropping an iterator waits for it.
    options.autotune.enabled = False
    options.deterministic = True
    return batches.prefetch(8).with_options(options)
