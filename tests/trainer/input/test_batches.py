"""The order of records is a function of (seed, epoch) and can be entered anywhere."""

from dataclasses import replace

import pytest
import tensorflow as tf

from tests.trainer.input.record_folders import numbers, write_records
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.objectives.masked import masked_features
from transbeam.pipeline.records.features import check_arrays
from transbeam.pipeline.records.tf_example import parse_records
from transbeam.trainer.input.batches import (
    check_contract,
    training_batches,
    validation_batches,
)


def keys(batches, count: int | None = None) -> list[bytes]:
    """One key per record, in order."""
    found = []
    for batch in batches.take(-1 if count is None else count):
        found += [row.tobytes() for row in batch["token_ids"].numpy()]
    return found


def batches(manifest, **changes):
    settings = {"batch_size": 4, "shuffle_records": 50, "seed": 1, **changes}
    return training_batches(manifest, **settings)


@pytest.fixture
def epoch(manifest) -> int:
    size = sum(shard.records for shard in manifest.split("train"))
    assert size > 60
    return size


def test_each_epoch_has_every_record_once_in_another_order(manifest, epoch) -> None:
    found = keys(batches(manifest, batch_size=epoch), 2)
    first, second = found[:epoch], found[epoch:]
    files = [str(manifest.folder / shard.path) for shard in manifest.split("train")]
    (written,) = tf.data.TFRecordDataset(files).batch(epoch)
    rows = parse_records(written, manifest.features)["token_ids"].numpy()
    assert sorted(first) == sorted(second) == sorted(row.tobytes() for row in rows)
    assert first != second


def test_seed_decides(manifest) -> None:
    assert keys(batches(manifest), 9) == keys(batches(manifest), 9)
    assert keys(batches(manifest), 9) != keys(batches(manifest, seed=2), 9)


@pytest.mark.parametrize("skipped", [0, 1, 7, 30, 100])
def test_entering_in_the_middle(manifest, skipped: int) -> None:
    whole = keys(batches(manifest), skipped + 10)
    entered = keys(batches(manifest, batches_read=skipped), 10)
    assert entered == whole[4 * skipped :]


def test_validation_is_read_once(manifest) -> None:
    size = sum(shard.records for shard in manifest.split("validation"))
    found = keys(validation_batches(manifest, 5))
    assert sorted(found) == sorted(keys(validation_batches(manifest, size)))
    assert len(found) == size
    assert size % 5, "the last batch should be a short one"


def test_a_batch_has_all_features_of_the_contract(manifest) -> None:
    whole = batches(manifest)
    arrays = {name: tensor.numpy() for name, tensor in next(iter(whole)).items()}
    check_arrays(arrays, manifest.features)
    assert {name: spec.shape for name, spec in whole.element_spec.items()} == {
        feature.name: (4, *feature.shape) for feature in manifest.features
    }


def test_records_made_for_something_else_are_refused(manifest) -> None:
    check_contract(manifest, masked_features(32, 5))
    with pytest.raises(ArtifactError, match=r"token_ids: int32 \(32,\) there"):
        check_contract(manifest, masked_features(64, 5))
    with pytest.raises(ArtifactError, match=r"masked_ids: int32 \(5,\) there"):
        check_contract(manifest, masked_features(32, 6))
    with pytest.raises(ArtifactError, match="token_ids: nothing there"):
        check_contract(replace(manifest, features=()), masked_features(32, 5))


def test_no_training_record(manifest) -> None:
    others = tuple(shard for shard in manifest.shards if shard.split != "train")
    with pytest.raises(ArtifactError, match="the train split has no record"):
        batches(replace(manifest, shards=others))


def test_training_records_stand_in_where_none_is_held_out(manifest) -> None:
    assert manifest.has_validation
    training = tuple(shard for shard in manifest.shards if shard.split == "train")
    without = replace(manifest, shards=training)
    assert not without.has_validation
    assert without.split("validation") == without.split("train")[:1]
    number = sum(len(batch["token_ids"]) for batch in validation_batches(without, 4))
    assert number == without.split("train")[0].records
    with pytest.raises(ArtifactError, match="the train split has no record"):
        validation_batches(replace(manifest, shards=()), 4)


@pytest.mark.parametrize("batch_size", [1, 5, 6, 20])
def test_fewer_records_than_a_batch(tmp_path, batch_size: int) -> None:
    few = write_records(tmp_path, {("train", 8): [2, 3]})
    read = numbers(batches(few, batch_size=batch_size), 20)
    found = [number for batch in read for number in batch]
    epochs = [found[i : i + 5] for i in range(0, 20 * batch_size // 5 * 5, 5)]
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in epochs)


def test_the_size_of_a_batch_does_not_change_the_order(manifest) -> None:
    assert keys(batches(manifest, batch_size=6), 10) == keys(batches(manifest), 15)
