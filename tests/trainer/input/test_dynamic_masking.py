"""Dynamic masking hides what static masking would, and the same after a restart."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.objectives.word_tokenizer import run_of
from tests.pipeline.records.packing.test_sequence_packing import packed_from
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.pipeline.documents.randomness import to_unit
from transbeam.pipeline.objectives.base.mask_selection import join_words, word_ids
from transbeam.pipeline.objectives.masked import (
    Hiding,
    features,
    mask_records,
    masked_features,
)
from transbeam.pipeline.records.features import check_arrays
from transbeam.pipeline.records.manifest import Manifest, Shard
from transbeam.pipeline.records.packing.sequence_packing import Chunks, Packed
from transbeam.pipeline.records.tf_example import encode_records
from transbeam.trainer.input.batches import training_batches, validation_batches
from transbeam.trainer.input.dynamic_masking import DynamicMasking, _join_words

MASK = 4
ORDINARY = np.arange(5, 1000, dtype=np.int32)
STARTS_WORD = np.arange(1000) % 3 > 0
MODES = [
    {},
    {"whole_words": True},
    {"ngram": 3},
    {"whole_words": True, "ngram": 3, "masking_fraction": 0.3},
]


def documents(count: int, mean: float = 30) -> list[list[int]]:
    random = np.random.default_rng(0)
    sizes = random.geometric(1 / mean, count)
    return [random.integers(5, 1000, size).tolist() for size in sizes]


def dynamic(packed: Packed, places: np.ndarray, seed: int = 0, **changes):
    config = MaskedConfig(masking="dynamic", **changes)
    starts_word = STARTS_WORD if config.whole_words else None
    records = {
        "token_ids": packed.token_ids,
        "document_ids": packed.document_ids,
        "position_ids": packed.position_ids,
        "word_ids": word_ids(packed, slice(None), starts_word),
    }
    hide = tf.function(DynamicMasking(config, Hiding(seed, MASK, ORDINARY)))
    tensors = {name: tf.constant(array) for name, array in records.items()}
    masked = hide(tensors, tf.constant(places, tf.int64))
    return {name: tensor.numpy() for name, tensor in masked.items()}


@pytest.mark.parametrize("changes", MODES)
def test_the_graph_hides_what_numpy_hides(changes: dict) -> None:
    packed = packed_from(documents(150), 48, together=False)
    places = np.arange(len(packed)) * 1000 + 7
    # The record's place stands for the document, the column for the place in it.
    lone = Packed(
        packed.token_ids,
        packed.document_ids,
        np.broadcast_to(np.arange(48, dtype=np.int32), packed.token_ids.shape),
        packed.is_content,
        Chunks(
            packed.chunks.starts,
            packed.chunks.lengths,
            places.astype(np.uint64),
            np.zeros_like(places),
            packed.chunks.documents,
        ),
        packed.record,
    )
    starts_word = STARTS_WORD if "whole_words" in changes else None
    hiding = Hiding(5, MASK, ORDINARY, starts_word)
    expected = mask_records(lone, MaskedConfig(**changes), hiding)
    found = dynamic(packed, places, seed=5, **changes)
    for name in ("token_ids", "masked_positions", "masked_ids", "masked_weights"):
        np.testing.assert_array_equal(found[name], expected[name], name)


def test_matches_the_contract() -> None:
    packed = packed_from(documents(100), 64)
    found = dynamic(packed, np.arange(len(packed)), whole_words=True)
    check_arrays(found, masked_features(64, 10))


def test_runs_of_words_in_packed_records() -> None:
    packed = packed_from(documents(100, mean=8), 64)
    words = word_ids(packed, slice(None), STARTS_WORD)
    random = np.random.default_rng(0)
    draws = to_unit(random.integers(0, 2**64, words.shape, np.uint64))
    expected = join_words(words, packed.document_ids, draws, 4)
    found = _join_words(
        tf.constant(words), tf.constant(packed.document_ids), tf.constant(draws), 4
    )
    np.testing.assert_array_equal(found, expected)


def test_each_place_in_the_training_has_masks_of_its_own() -> None:
    packed = packed_from(documents(200), 64)
    everything = np.arange(len(packed))
    whole = dynamic(packed, everything)
    again = dynamic(packed, everything)
    later = dynamic(packed, everything + 1000)
    other = dynamic(packed, everything, seed=1)
    np.testing.assert_array_equal(whole["token_ids"], again["token_ids"])
    for changed in (later, other):
        used = whole["masked_weights"] > 0
        alike = whole["masked_positions"] == changed["masked_positions"]
        assert alike[used].mean() < 0.3


def test_the_size_of_a_batch_does_not_show() -> None:
    packed = packed_from(documents(100), 64)
    whole = dynamic(packed, np.arange(len(packed)), ngram=2)
    rows = slice(3, 11)
    part = Packed(
        packed.token_ids[rows],
        packed.document_ids[rows],
        packed.position_ids[rows],
        packed.is_content[rows],
        packed.chunks,
        packed.record,
    )
    found = dynamic(part, np.arange(3, 11), ngram=2)
    for name, array in found.items():
        np.testing.assert_array_equal(array, whole[name][rows])


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("changes", MODES)
def test_nothing_to_hide(changes: dict, rows: int) -> None:
    config = MaskedConfig(masking="dynamic", **changes)
    hide = tf.function(DynamicMasking(config, Hiding(0, MASK, ORDINARY)))
    names = ("token_ids", "document_ids", "position_ids", "word_ids")
    padding = {name: tf.zeros((rows, 32), tf.int32) for name in names}
    found = hide(padding, tf.range(rows, dtype=tf.int64))
    slots = config.predictions_per_record(32)
    arrays = {name: tensor.numpy() for name, tensor in found.items()}
    check_arrays(arrays, masked_features(32, slots))
    assert not any(array.any() for array in arrays.values())


def test_fifteen_percent_and_eighty_ten_ten() -> None:
    packed = packed_from(documents(1500, mean=60), 128)
    real, hits, total = packed.token_ids, np.zeros(3), 0
    for epoch in range(3):
        found = dynamic(packed, np.arange(len(packed)) + epoch * len(packed))
        row, slot = np.nonzero(found["masked_weights"])
        column = found["masked_positions"][row, slot]
        assert packed.is_content[row, column].all()
        shown, asked = found["token_ids"][row, column], real[row, column]
        np.testing.assert_array_equal(asked, found["masked_ids"][row, slot])
        kinds = np.where(shown == MASK, 0, np.where(shown == asked, 1, 2))
        hits += np.bincount(kinds, minlength=3)
        total += packed.is_content.sum()
    assert hits.sum() / total == pytest.approx(0.15, abs=0.002)  # rounded per record
    expected = np.array([0.8, 0.1 + 0.1 / 995, 0.1 - 0.1 / 995]) * hits.sum()
    # 99.99% of a chi-square with two degrees of freedom.
    assert ((hits - expected) ** 2 / expected).sum() < 18.4


@pytest.fixture
def unmasked(tmp_path: Path) -> Manifest:
    """A folder of records that have yet to be masked."""
    packed = packed_from(documents(120), 32)
    run = run_of(MaskedConfig(masking="dynamic"), 32)
    arrays = {
        "token_ids": packed.token_ids,
        "document_ids": packed.document_ids,
        "position_ids": packed.position_ids,
        "word_ids": word_ids(packed, slice(None)),
    }
    half = len(packed) // 2
    shards = []
    for split, rows in (("train", slice(half)), ("validation", slice(half, None))):
        part = {name: array[rows] for name, array in arrays.items()}
        with tf.io.TFRecordWriter(str(tmp_path / split)) as writer:
            for record in encode_records(part, features(run)):
                writer.write(record)
        shards.append(Shard(split, split, len(part["token_ids"]), 0, ""))
    return Manifest(tmp_path, features(run), tuple(shards), {}, {})


def taken(batches: tf.data.Dataset, count: int) -> list[bytes]:
    return [
        row.tobytes()
        for batch in batches.take(count)
        for row in np.hstack([batch["token_ids"], batch["masked_ids"]])
    ]


def test_a_training_that_stopped_goes_on_with_the_same_masks(unmasked) -> None:
    def batches(batches_read: int = 0) -> tf.data.Dataset:
        return training_batches(
            unmasked,
            batch_size=4,
            shuffle_records=20,
            seed=1,
            batches_read=batches_read,
            masking=masking,
        )

    masking = DynamicMasking(MaskedConfig(), Hiding(1, MASK, ORDINARY))
    epoch = unmasked.shards[0].records
    whole = taken(batches(), epoch)
    assert len(set(whole)) == len(whole), "masked anew in each epoch"
    for skipped in (1, 7, epoch // 2):
        assert taken(batches(skipped), 10) == whole[4 * skipped : 4 * skipped + 40]


def test_validation_has_the_same_masks_each_time(unmasked) -> None:
    masking = DynamicMasking(MaskedConfig(), Hiding(1, MASK, ORDINARY))
    first = taken(validation_batches(unmasked, 5, masking), -1)
    assert first == taken(validation_batches(unmasked, 5, masking), -1)
    assert len(first) == unmasked.shards[1].records
