"""Batches of records, in an order that is a function of (seed, epoch) alone.

The position in that order is one number, the records read so far, so a training that
stopped can go on at exactly the next batch.
"""

import functools
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from configs.errors import ArtifactError
from pipeline.examples import parse_records
from pipeline.features import Feature, differences
from pipeline.manifest import FILE, Manifest
from pipeline.shards import Shard
from trainer.masking import DynamicMasking

# Inputs, targets and weights, as `keras.Model.fit` takes them.
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]

_FOREVER = 2**31
# TensorFlow makes this module at import, where pyright cannot see it.
_experimental = tf.random.experimental  # pyright: ignore[reportAttributeAccessIssue]
_FILES_AT_ONCE = 8
_BLOCK = 16  # records taken from one file before the next has its turn
_LARGE_PRIME = 1_000_003  # keeps the seeds of neighbouring runs and blocks apart


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
    manifest: Manifest,
    *,
    batch_size: int,
    shuffle_records: int,
    seed: int,
    records_read: int = 0,
    masking: DynamicMasking | None = None,
) -> tf.data.Dataset:
    """Batches without end: each epoch has every training record once, stirred anew.

    Args:
        manifest: The records.
        batch_size: Records per batch; a batch may straddle two epochs.
        shuffle_records: How many records are held in memory and stirred at once.
        seed: The run's seed.
        records_read: Where to go on: records an earlier run has consumed.
        masking: Hides tokens, if the records have none hidden.
    """
    shards = manifest.split("train")
    files = [str(manifest.folder / shard.path) for shard in shards]
    reader = _reader(shards)
    first_epoch, offset = divmod(records_read, sum(shard.records for shard in shards))

    def shuffled(values: tf.Tensor, epoch: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
        # Stateless, because tf.data's own shuffle would depend on the global seed.
        return _experimental.stateless_shuffle(
            values, seed=tf.stack([seed + block * _LARGE_PRIME, epoch])
        )

    def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
        order = shuffled(tf.constant(files), epoch, tf.constant(-1, tf.int64))
        return (
            tf.data.Dataset.from_tensor_slices(order)
            .interleave(
                reader,
                cycle_length=_FILES_AT_ONCE,
                block_length=_BLOCK,
                num_parallel_calls=2,
                deterministic=True,
            )
            .batch(shuffle_records)
            .enumerate()
            .map(lambda block, records: shuffled(records, epoch, block))
            .unbatch()
        )

    epochs = tf.data.Dataset.range(first_epoch, _FOREVER)
    records = epochs.flat_map(epoch_records).skip(offset).enumerate(records_read)
    return _batches(records, manifest, batch_size, masking)


def validation_batches(
    manifest: Manifest, batch_size: int, masking: DynamicMasking | None = None
) -> tf.data.Dataset:
    """The validation split once, a record from each shard in turn.

    Its first batches are thus a fair sample of the whole. The last may be short. If
    tokens have yet to be hidden, they are the same each time.
    """
    shards = manifest.split("validation")
    files = [str(manifest.folder / shard.path) for shard in shards]
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        _reader(shards),
        cycle_length=max(len(files), 2),  # no fewer than parallel calls
        num_parallel_calls=2,
        deterministic=True,
    )
    # Stated, because Keras warns at the end of a dataset whose length it cannot tell.
    length = math.ceil(sum(shard.records for shard in shards) / batch_size)
    return _batches(records.enumerate(), manifest, batch_size, masking).apply(
        tf.data.experimental.assert_cardinality(length)
    )


def _reader(shards: Sequence[Shard]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Reads a file as the shards are written, compressed or not."""
    return functools.partial(
        tf.data.TFRecordDataset, compression_type=shards[0].compression
    )


def _batches(
    records: tf.data.Dataset,
    manifest: Manifest,
    batch_size: int,
    masking: DynamicMasking | None,
) -> tf.data.Dataset:
    """Batches of numbered records."""

    def as_fit_wants(places: tf.Tensor, serialized: tf.Tensor) -> Batch:
        parsed = parse_records(serialized, manifest.features)
        if masking is not None:
            parsed = masking(parsed, places)
        targets, weights = parsed.pop("masked_ids"), parsed.pop("masked_weights")
        return parsed, {"logits": targets}, {"logits": weights}

    options = tf.data.Options()
    # Its thread sleeps in ever longer steps, and dropping an iterator waits for it.
    options.autotune.enabled = False
    options.deterministic = True
    return (
        records.batch(batch_size)
        .map(as_fit_wants, num_parallel_calls=2, deterministic=True)
        .prefetch(8)
        .with_options(options)
    )
