"""Streams of serialized records: each epoch has every record once, in a new order.

The order is a function of (seed, epoch) alone. Reading can start at any record without
reading all earlier ones, because the manifest has the record count of each file.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.pipeline.records.epochs import records_per_batch, shards_by_length
from transbeam.pipeline.records.features import Feature
from transbeam.pipeline.records.manifest import Manifest, Shard
from transbeam.trainer.input.dataset_mixture import FOREVER, shuffled, without_autograph

_FILES_AT_ONCE = 8
_BLOCK = 16  # consecutive records read from one file
_LARGE_PRIME = 1_000_003  # keeps the seeds of neighboring runs and pieces apart
_LARGE_POWER = 2**32  # keeps the seeds of epochs and streams apart


@dataclass(frozen=True)
class RecordStream:
    """The records of one length in a split of a data set.

    Attributes:
        number: The stream's index among all streams of a training.
        folder: The folder of the files.
        shards: The files.
        features: The record contract.
        batch_size: Records per batch.
    """

    number: int
    folder: Path
    shards: tuple[Shard, ...]
    features: tuple[Feature, ...]
    batch_size: int

    @property
    def records(self) -> int:
        """Number of records in an epoch."""
        return sum(shard.records for shard in self.shards)

    @property
    def batches(self) -> float:
        """Number of batches in an epoch, with a fraction for the last one."""
        return self.records / self.batch_size

    def once(self) -> tf.data.Dataset:
        """Reads every record once, one from each file in turn, in a fixed order."""
        return self._read(tf.constant(self._files), len(self.shards), block=1)

    def places(self) -> list[tuple[str, int]]:
        """Shard path and number in the shard of each record, in the order of `once`."""
        places = [
            (number, place)
            for place, shard in enumerate(self.shards)
            for number in range(shard.records)
        ]
        return [(self.shards[place].path, number) for number, place in sorted(places)]

    def epochs(
        self, shuffle_records: int, seed: int, records_read: int
    ) -> tf.data.Dataset:
        """Infinite epochs; blocks of `shuffle_records` records are shuffled.

        Args:
            shuffle_records: Records that are held in memory and shuffled together.
            seed: The run's seed.
            records_read: Number of records already read, after which to resume. Only
                the files that were being read at the interruption are opened again.
        """
        first_epoch, offset = divmod(records_read, self.records)
        first_piece, start = divmod(offset, shuffle_records)

        @without_autograph
        def pieces(epoch: tf.Tensor) -> tf.data.Dataset:
            second_seed = epoch + self.number * _LARGE_POWER
            order = shuffled(
                tf.range(len(self.shards)), seed - _LARGE_PRIME, second_seed
            )
            entered = epoch == first_epoch
            skipped = tf.where(entered, tf.constant(first_piece, tf.int64), 0)

            @without_autograph
            def shuffle_piece(piece: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
                records = shuffled(records, seed + piece * _LARGE_PRIME, second_seed)
                return records[tf.where(entered & (piece == first_piece), start, 0) :]

            return (
                self._from(order, skipped * shuffle_records)
                .batch(shuffle_records)
                .enumerate(skipped)
                .map(shuffle_piece)
            )

        return tf.data.Dataset.range(first_epoch, FOREVER).flat_map(pieces)

    @property
    def _files(self) -> list[str]:
        return [str(self.folder / shard.path) for shard in self.shards]

    def _from(self, order: tf.Tensor, record: tf.Tensor) -> tf.data.Dataset:
        """Reads files in a given order, group by group, from a given record on."""
        files = tf.gather(self._files, order)
        sizes = tf.constant([shard.records for shard in self.shards], tf.int64)
        sizes = tf.gather(sizes, order)
        # Groups that end before that record need not be opened.
        ends = tf.cumsum(sizes)[_FILES_AT_ONCE - 1 :: _FILES_AT_ONCE]
        done = _FILES_AT_ONCE * tf.math.count_nonzero(ends <= record)
        groups = tf.data.Dataset.from_tensor_slices(files[done:]).batch(_FILES_AT_ONCE)
        return groups.flat_map(
            without_autograph(lambda group: self._read(group, _FILES_AT_ONCE, _BLOCK))
        ).skip(record - tf.reduce_sum(sizes[:done]))

    def _read(self, files: tf.Tensor, at_once: int, block: int) -> tf.data.Dataset:
        reader = functools.partial(
            tf.data.TFRecordDataset, compression_type=self.shards[0].compression
        )
        return tf.data.Dataset.from_tensor_slices(files).interleave(
            reader,
            cycle_length=max(at_once, 2),  # no fewer than parallel calls
            block_length=block,
            num_parallel_calls=2,
            deterministic=True,
        )


def make_streams(
    manifest: Manifest,
    split: str,
    batch_size: int,
    *,
    workers: int = 1,
    parts: int = 1,
    first: int = 0,
) -> list[RecordStream]:
    """Builds a stream for each record length in a split, the shortest first.

    Args:
        manifest: The records.
        split: `"train"` or `"validation"`.
        batch_size: Records per batch, for the longest records. Batches of shorter
            records contain more records, so that all batches have about equally many
            tokens.
        workers: Number of workers that share each batch.
        parts: Number of micro-batches per worker; `workers` times `parts` must divide
            `batch_size`.
        first: The index of the first stream; the others are numbered from it.

    Raises:
        ArtifactError: The split has no record.
        ConfigError: The workers cannot share a batch equally.
    """
    if batch_size % (workers * parts):
        micro = f" in {parts} micro-batches each" if parts > 1 else ""
        raise ConfigError(
            f"training.batch_size: {batch_size} records cannot be shared equally by "
            f"{workers} workers{micro}. Choose a multiple of {workers * parts}"
        )
    by_length = shards_by_length(manifest, split)
    rows = records_per_batch(manifest, list(by_length), batch_size, workers * parts)
    return [
        RecordStream(
            number,
            manifest.folder,
            tuple(shards),
            manifest.features_of(shards[0]),
            rows[length],
        )
        for number, (length, shards) in enumerate(by_length.items(), first)
    ]
