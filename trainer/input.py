"""Batches of records, in an order that is a function of (seed, epoch) alone.

The position in that order is one number, the records read so far, so a training that
stopped can go on at exactly the next batch.
"""

import math

import tensorflow as tf

from configs.errors import ArtifactError
from pipeline.examples import parse_records
from pipeline.features import Feature, differences
from pipeline.manifest import FILE, Manifest

# Inputs, targets and weights, as `keras.Model.fit` takes them.
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]

_FOREVER = 2**31
# TensorFlow makes this module at import, where pyright cannot see it.
_experimental = tf.random.experimental  # pyright: ignore[reportAttributeAccessIssue]
_FILES_AT_ONCE = 8
_BLOCK = 16  # records taken from one file before the next has its turn
_LARGE_PRIME = 1_000_003  # keeps the seeds of neighbouring runs and blocks apart


def check_contract(
    manifest: Manifest, expected: tuple[Feature, ...], vocabulary_size: int
) -> None:
    """Refuses records that the model could not read or would misunderstand.

    Raises:
        ArtifactError: Other features, other shapes, or another vocabulary.
    """
    wrong = differences(manifest.features, expected)
    if (size := manifest.vocabulary["size"]) != vocabulary_size:
        wrong.append(f"vocabulary: {size} pieces there, {vocabulary_size} expected")
    if wrong:
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
) -> tf.data.Dataset:
    """Batches without end: each epoch has every training record once, stirred anew.

    Args:
        manifest: The records.
        batch_size: Records per batch; a batch may straddle two epochs.
        shuffle_records: How many records are held in memory and stirred at once.
        seed: The run's seed.
        records_read: Where to go on: records an earlier run has consumed.
    """
    shards = manifest.split("train")
    files = [str(manifest.folder / shard.path) for shard in shards]
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
                tf.data.TFRecordDataset,
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
    records = epochs.flat_map(epoch_records).skip(offset)
    return _batches(records, manifest, batch_size)


def validation_batches(manifest: Manifest, batch_size: int) -> tf.data.Dataset:
    """The validation split once, a record from each shard in turn.

    Its first batches are thus a fair sample of the whole. The last may be short.
    """
    shards = manifest.split("validation")
    files = [str(manifest.folder / shard.path) for shard in shards]
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset,
        cycle_length=len(files),
        num_parallel_calls=2,
        deterministic=True,
    )
    # Stated, because Keras warns at the end of a dataset whose length it cannot tell.
    length = math.ceil(sum(shard.records for shard in shards) / batch_size)
    return _batches(records, manifest, batch_size).apply(
        tf.data.experimental.assert_cardinality(length)
    )


def _batches(
    records: tf.data.Dataset, manifest: Manifest, batch_size: int
) -> tf.data.Dataset:
    def as_fit_wants(serialized: tf.Tensor) -> Batch:
        parsed = parse_records(serialized, manifest.features)
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
