"""Epochs: the number of batches in a pass over the training records.

The batches of a training follow one another without a gap: a batch may straddle two
epochs, so no record is dropped at the end of one. In a bucketed data set, batches of
shorter records have more of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.manifest import Manifest, Shard, read_manifest

_USUAL_WORKERS = 8


def shards_by_length(manifest: Manifest, split: str) -> dict[int, list[Shard]]:
    """Groups the non-empty shards of a split by record length, the shortest first.

    Raises:
        ArtifactError: The split has no record.
    """
    by_length: dict[int, list[Shard]] = {}
    for shard in manifest.split(split):
        by_length.setdefault(shard.sequence_length, []).append(shard)
    return dict(sorted(by_length.items()))


def records_per_batch(
    manifest: Manifest, lengths: Sequence[int], batch_size: int, parts: int
) -> dict[int, int]:
    """Returns the number of records of each length in a batch.

    A batch of shorter records has as many as make about the same number of tokens,
    rounded down for equal parts.

    Args:
        manifest: The records.
        lengths: The record lengths of a split.
        batch_size: Records per batch, for the longest records.
        parts: Number of equal parts into which each batch is split; it must divide
            `batch_size`.
    """
    longest = max([*lengths, *manifest.buckets])
    # Equal for all usual numbers of workers, so that batches do not depend on it.
    multiple = math.lcm(parts, math.gcd(batch_size, _USUAL_WORKERS))
    return {
        length: batch_size
        if length == longest
        else batch_size * longest // length // multiple * multiple
        for length in lengths
    }


def batches_per_epoch(config: RunConfig, manifest: Manifest) -> Fraction:
    """Number of batches in which a training reads each of its run's records once.

    Batches of `training.datasets` lie between those of the run's own records, and
    count as well. Batches of shorter records are those of 1, 2, 4 or 8 devices: other
    numbers of devices may round their sizes differently.

    Args:
        config: The run.
        manifest: The run's own records.

    Raises:
        ArtifactError: There is no training record.
    """
    training = config.training
    shards = shards_by_length(manifest, "train")
    rows = records_per_batch(
        manifest, list(shards), training.batch_size, training.accumulation
    )
    batches = (
        Fraction(sum(shard.records for shard in of_length), rows[length])
        for length, of_length in shards.items()
    )
    own = sum(batches, start=Fraction())
    others = sum(_exact(dataset.weight) for dataset in training.datasets)
    return own * (1 + others)


def settle_steps(
    config: RunConfig,
    data_folder: Path,
    say: Callable[[str], None] = lambda text: None,
) -> RunConfig:
    """Replaces the epochs of a training by the number of steps, rounded up.

    The resulting run is the same, with the same fingerprints, as one that has this
    number of steps.

    Args:
        config: The run.
        data_folder: The folder of the run's records; not read if the configuration has
            steps.
        say: Prints the number of steps, and what it results from.

    Raises:
        ArtifactError: The records have not been made, or there is none for training.
        ConfigError: The schedule does not fit the number of steps.
    """
    training = config.training
    if training.epochs is None:
        return config
    manifest = read_manifest(data_folder)
    steps = math.ceil(_exact(training.epochs) * batches_per_epoch(config, manifest))
    length = describe_length(config, manifest, steps)
    say(length)
    try:
        return replace(config, training=training.with_steps(steps))
    except ConfigError as error:
        raise ConfigError(f"training.epochs: {length}: {error}") from error


def describe_length(config: RunConfig, manifest: Manifest, steps: int) -> str:
    """Describes the steps of a training that has epochs.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> from transbeam.configs.schema.training import TrainingConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> run = RunConfig(name="a", data=data, training=TrainingConfig(epochs=3.0))
    >>> shard = Shard("train-0", "train", records=1_234, bytes=0, sha256="")
    >>> describe_length(run, Manifest(Path("data"), (), (shard,), {}, {}), 116)
    '3 epochs of 1,234 records = 116 steps of 32'
    """
    training, objective = config.training, config.objective
    epochs, records = training.epochs or 0.0, manifest.split("train")
    text = f"{epochs:g} epoch{'s' * (epochs != 1)} of "
    text += f"{sum(shard.records for shard in records):,} records"
    if isinstance(objective, MaskedConfig) and objective.copies > 1:
        text += f" (objective.copies={objective.copies})"
    if training.datasets:
        text += " and the batches of training.datasets beside them"
    text += f" = {steps:,} steps of {training.batch_size:,}"
    return f"{text} or more" if manifest.buckets else text


def _exact(number: float) -> Fraction:
    """A number by its decimals: 0.1 is a tenth, which its binary form is not."""
    return Fraction(repr(number))
