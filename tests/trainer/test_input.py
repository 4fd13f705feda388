"""The order of records is a function of (seed, epoch) and can be entered anywhere."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from configs.errors import ArtifactError
from pipeline.examples import parse_records
from pipeline.objectives.masked import masked_features
from trainer.input import check_contract, training_batches, validation_batches


def keys(batches, count: int | None = None) -> list[bytes]:
    """One key per record, in order."""
    found = []
    for inputs, _, _ in batches.take(-1 if count is None else count):
        found += [row.tobytes() for row in inputs["token_ids"].numpy()]
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
    entered = keys(batches(manifest, records_read=4 * skipped), 10)
    assert entered == whole[4 * skipped :]


def test_validation_is_read_once(manifest) -> None:
    size = sum(shard.records for shard in manifest.split("validation"))
    found = keys(validation_batches(manifest, 5))
    assert sorted(found) == sorted(keys(validation_batches(manifest, size)))
    assert len(found) == size
    assert size % 5, "the last batch should be a short one"


def test_targets_and_weights_go_with_the_logits(manifest) -> None:
    inputs, targets, weights = next(iter(batches(manifest)))
    assert set(inputs) == {
        "token_ids",
        "document_ids",
        "position_ids",
        "masked_positions",
    }
    assert inputs["token_ids"].shape == (4, 32)
    assert targets["logits"].dtype == np.int32
    assert set(np.unique(weights["logits"])) <= {0.0, 1.0}


def test_records_made_for_something_else_are_refused(manifest) -> None:
    check_contract(manifest, masked_features(32, 5))
    with pytest.raises(ArtifactError, match=r"token_ids: int32 \(32,\) there"):
        check_contract(manifest, masked_features(64, 5))
    with pytest.raises(ArtifactError, match=r"masked_ids: int32 \(5,\) there"):
        check_contract(manifest, masked_features(32, 6))
    with pytest.raises(ArtifactError, match="token_ids: nothing there"):
        check_contract(replace(manifest, features=()), masked_features(32, 5))


def test_empty_split(manifest) -> None:
    only_training = replace(
        manifest, shards=tuple(s for s in manifest.shards if s.split == "train")
    )
    with pytest.raises(ArtifactError, match="the validation split has no record"):
        validation_batches(only_training, 4)
