"""Records of several lengths and data sets, shared by several workers."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.objectives.word_tokenizer import run_of
from tests.trainer.input.record_folders import numbers, write_records
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.training import DatasetConfig, TrainingConfig
from transbeam.pipeline.objectives.masked import Hiding
from transbeam.pipeline.records.epochs import batches_per_epoch
from transbeam.pipeline.records.manifest import Manifest
from transbeam.trainer.input.batches import (
    rows_of_batches,
    training_batches,
    validation_batches,
    validation_order,
)
from transbeam.trainer.input.dynamic_masking import DynamicMasking

MASKING = DynamicMasking(
    MaskedConfig(), Hiding(1, 4, np.arange(5, 1000, dtype="int32"))
)
# Numbers 0-89, 90-129 and 130-139.
TRAINING = {("train", 8): [30, 60], ("train", 16): [25, 15], ("train", 32): [10]}
VALIDATION = {("validation", 8): [9, 8], ("validation", 32): [3, 2]}


@pytest.fixture(scope="module")
def bucketed(tmp_path_factory) -> Manifest:
    return write_records(tmp_path_factory.mktemp("bucketed"), TRAINING | VALIDATION)


def batches(data: Any, **changes: Any) -> tf.data.Dataset:
    settings = {"batch_size": 2, "shuffle_records": 50, "seed": 1, **changes}
    return training_batches(data, **settings)


def as_arrays(dataset: tf.data.Dataset, count: int = -1) -> list[dict[str, np.ndarray]]:
    return list(dataset.take(count).as_numpy_iterator())


def assert_equal(found: list[dict], expected: list[dict]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], name)


def test_a_batch_is_of_one_length_and_has_as_many_tokens(bucketed: Manifest) -> None:
    shapes = {b["token_ids"].shape for b in as_arrays(batches(bucketed), 100)}
    assert shapes == {(8, 8), (4, 16), (2, 32)}


def test_each_length_goes_through_its_records_at_the_same_pace(
    bucketed: Manifest,
) -> None:
    # 90 / 8 + 40 / 4 + 10 / 2 batches are an epoch; four of them are whole batches.
    found = numbers(batches(bucketed), 4 * 26 + 1)
    read = Counter(number for batch in found for number in batch)
    assert set(read) == set(range(140))
    assert set(read.values()) <= {3, 4, 5}
    assert sum(read.values()) == pytest.approx(4 * 140, abs=16)
    for first, end in ((0, 90), (90, 130), (130, 140)):
        own = [n for batch in found for n in batch if first <= n < end]
        for start in range(0, len(own) - (end - first), end - first):
            epoch = own[start : start + end - first]
            assert sorted(epoch) == list(range(first, end))


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_epochs_in_steps_read_every_record_as_often(
    bucketed: Manifest, epochs: int
) -> None:
    steps = math.ceil(epochs * batches_per_epoch(run_of_two(), bucketed))
    read = Counter(n for batch in numbers(batches(bucketed), steps) for n in batch)
    # A length whose last batch is not full may have its turn one batch later.
    late = 0 if epochs % 4 == 0 else 8
    assert sum(count != epochs for count in read.values()) <= 3 * late
    assert {*read.values()} <= {epochs - 1, epochs, epochs + 1}
    assert len(read) == 140


def test_epochs_are_passes_over_the_own_records_of_a_mixture(tmp_path: Path) -> None:
    own = write_records(tmp_path / "own", {("train", 32): [40]})
    other = write_records(tmp_path / "other", {("train", 32): [9]}, first=40)
    steps = math.ceil(3 * batches_per_epoch(run_of_two(0.5), own))
    assert steps == 3 * 20 * 1.5
    found = numbers(batches([(own, 1.0), (other, 0.5)]), steps)
    read = Counter(number for batch in found for number in batch)
    # The last cycle of the mixture is not whole: its order decides on a batch or two.
    passes = [read[number] for number in range(40)]
    assert sum(passes) == pytest.approx(120, abs=4)
    assert {*passes} <= {2, 3, 4}


def run_of_two(*weights: float) -> RunConfig:
    """A run with batches of two records, beside those of other data sets."""
    others = tuple(DatasetConfig(run="other", weight=weight) for weight in weights)
    training = TrainingConfig(epochs=1.0, batch_size=2, datasets=others)
    return replace(run_of(MaskedConfig(), 32), training=training)


def test_entering_in_the_middle(bucketed: Manifest) -> None:
    whole = as_arrays(batches(bucketed, masking=MASKING), 73)
    for skipped in (1, 53):
        entered = batches(bucketed, masking=MASKING, batches_read=skipped)
        assert_equal(as_arrays(entered, 20), whole[skipped : skipped + 20])


def hidden(found: list[dict[str, np.ndarray]]) -> Counter[tuple[int, ...]]:
    """The masked columns, five of 31, in all records of 32."""
    longest = [b["masked_positions"] for b in found if b["token_ids"].shape[1] == 32]
    return Counter(tuple(row.tolist()) for rows in longest for row in rows)


def test_no_record_is_ever_masked_as_before(bucketed: Manifest) -> None:
    found = as_arrays(batches(bucketed, masking=MASKING), 200)
    # Of 169,911 ways to hide them, hardly two of some 80 records have the same.
    ways = hidden(found)
    assert ways.total() > 60
    assert len(ways) == ways.total()
    assert {len(way) for way in ways} == {5}
    shorter = [b for b in found if b["token_ids"].shape[1] == 16]
    assert shorter[0]["masked_positions"].shape == (4, 3)


def test_streams_are_masked_apart(tmp_path: Path) -> None:
    pair = [
        write_records(tmp_path / name, {("train", 32): [40]}) for name in ("a", "b")
    ]
    data = [(one, 1.0) for one in pair]
    ways = hidden(as_arrays(batches(data, masking=MASKING), 40))
    assert len(ways) == ways.total() == 80


def shared(make: Callable[..., tf.data.Dataset], workers: int) -> list[dict]:
    """The batches of all workers, put together."""
    parts = [as_arrays(make(worker=(w, workers)), 12) for w in range(workers)]
    return [
        {name: np.concatenate([part[name] for part in row]) for name in row[0]}
        for row in zip(*parts, strict=True)
    ]


def test_workers_share_the_batches_of_one(bucketed: Manifest) -> None:
    def make(**how: Any) -> tf.data.Dataset:
        return batches(bucketed, batch_size=4, batches_read=7, masking=MASKING, **how)

    alone = as_arrays(make(), 12)
    assert_equal(shared(make, 2), alone)
    third = as_arrays(make(worker=(2, 4)), 1)[0]["token_ids"]
    quarter = len(third)
    np.testing.assert_array_equal(
        third, alone[0]["token_ids"][2 * quarter : 3 * quarter]
    )


def test_which_numbers_of_workers_have_the_same_batches(tmp_path: Path) -> None:
    three = write_records(tmp_path, {("train", length): [9] for length in (4, 6, 8)})
    for workers in (1, 2, 4, 8):
        assert rows_of_batches(three, 48, 1, workers) == [96, 64, 48]
    assert rows_of_batches(three, 48, 2, 4) == [96, 64, 48]
    assert rows_of_batches(three, 48, 1, 3) == [96, 48, 48]
    assert rows_of_batches(three, 48, 3, 1) == [96, 48, 48]


@pytest.mark.parametrize("masking", [None, MASKING], ids=["plain", "masked"])
def test_workers_share_validation(
    bucketed: Manifest, masking: DynamicMasking | None
) -> None:
    def make(**how: Any) -> tf.data.Dataset:
        return validation_batches(bucketed, 4, masking, **how)

    # 17 records in batches of 16, and 5 in batches of 4: some workers get nothing.
    assert_equal(shared(make, 4), as_arrays(make()))


def test_a_batch_must_be_shared_equally(bucketed: Manifest) -> None:
    with pytest.raises(ConfigError, match="Choose a multiple of 3"):
        batches(bucketed, batch_size=4, worker=(0, 3))


def test_validation_over_lengths_is_read_once_and_mixed(bucketed: Manifest) -> None:
    dataset = validation_batches(bucketed, 1)
    found = as_arrays(dataset)
    assert len(found) == len(dataset) == 5 + 5
    # 17 records by fours, 5 one by one; the two lengths alternate.
    shapes = [batch["token_ids"].shape for batch in found]
    assert shapes == [(4, 8), (1, 32)] * 4 + [(1, 8), (1, 32)]
    read = [int(n) for batch in found for n in batch["token_ids"][:, 0]]
    assert sorted(read) == list(range(140, 162))
    assert_equal(found, as_arrays(validation_batches(bucketed, 1)))


def test_weights_are_shares_of_the_batches(bucketed: Manifest, tmp_path: Path) -> None:
    large = write_records(tmp_path, {("train", 32): [300]}, first=1000)
    found = numbers(batches([(bucketed, 1.0), (large, 3.0)]), 400)
    of_large = [batch for batch in found if batch[0] >= 1000]
    # A cycle may be under way: it has 26 + 150 turns.
    assert len(of_large) == pytest.approx(300, abs=30)
    assert Counter(len(batch) for batch in of_large) == {2: len(of_large)}
    small = Counter(len(batch) for batch in found if batch[0] < 1000)
    for size, in_an_epoch in ((8, 11.25), (4, 10), (2, 5)):
        expected = 100 * in_an_epoch / 26.25
        assert small[size] == pytest.approx(expected, abs=12)
    assert numbers(batches([(bucketed, 2.0), (large, 6.0)]), 40) == found[:40]


def test_weighted_sets_are_entered_in_the_middle(
    bucketed: Manifest, tmp_path: Path
) -> None:
    large = write_records(tmp_path, {("train", 32): [300]}, first=1000)
    data = [(bucketed, 1.0), (large, 0.7)]
    whole = as_arrays(batches(data), 70)
    assert_equal(as_arrays(batches(data, batches_read=40), 30), whole[40:])


def test_one_set_with_a_weight_is_the_set(bucketed: Manifest) -> None:
    assert numbers(batches([(bucketed, 0.3)]), 30) == numbers(batches(bucketed), 30)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_weights_are_positive_numbers(bucketed: Manifest, weight: float) -> None:
    with pytest.raises(ConfigError, match="a positive number"):
        batches([(bucketed, 1.0), (bucketed, weight)])


def test_no_set_at_all() -> None:
    with pytest.raises(ConfigError, match="a positive number"):
        batches([])


def test_sets_of_one_contract(bucketed: Manifest, tmp_path: Path) -> None:
    other = write_records(tmp_path, {("train", 16): [4]})
    with pytest.raises(ArtifactError, match=r"token_ids: int32 \(16,\) there"):
        batches([(bucketed, 1.0), (other, 1.0)])


def test_a_set_without_training_records(bucketed: Manifest, tmp_path: Path) -> None:
    other = write_records(tmp_path, {("validation", 32): [4]})
    with pytest.raises(ArtifactError, match=f"{tmp_path}.*train split has no record"):
        batches([(bucketed, 1.0), (other, 1.0)])


@pytest.mark.parametrize("batch_size", [1, 4, 8])
def test_which_record_each_validation_row_is(bucketed, batch_size) -> None:
    shards = [shard for shard in bucketed.shards if shard.split == "validation"]
    first = dict(
        zip([shard.path for shard in shards], [140, 149, 157, 160], strict=True)
    )
    order = validation_order(bucketed, batch_size)
    batches = numbers(validation_batches(bucketed, batch_size))
    expected = [number for batch in batches for number in batch]
    assert [first[path] + record for path, record in order] == expected
