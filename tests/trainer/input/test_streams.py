"""A stream has every record once in an epoch, and can be entered at any of them."""

import shutil
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pytest
import tensorflow as tf

from tests.trainer.input.record_folders import write_records
from transbeam.configs.base.errors import ConfigError
from transbeam.pipeline.records.manifest import Manifest
from transbeam.trainer.input.streams import RecordStream, make_streams

SHARDS = [5, 1, 17, 30, 2, 8, 4, 11, 3, 9]  # more files than are read at once


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Manifest:
    folder = tmp_path_factory.mktemp("records")
    shards = {("train", 4): SHARDS, ("train", 6): [1], ("train", 8): [3, 2]}
    return write_records(folder, shards)


@pytest.fixture(scope="module")
def stream(manifest: Manifest) -> RecordStream:
    return make_streams(manifest, "train", 2)[0]


def paths(stream: RecordStream) -> list[str]:
    return [str(stream.folder / shard.path) for shard in stream.shards]


def read(
    stream: RecordStream, count: int, start: int = 0, shuffle: int = 20, seed: int = 1
) -> list[bytes]:
    pieces = stream.epochs(shuffle, seed, start).as_numpy_iterator()
    return list(islice(chain.from_iterable(pieces), count))


@pytest.fixture(scope="module")
def first_epochs(stream: RecordStream) -> list[bytes]:
    return read(stream, 270)


@pytest.mark.parametrize("start", [0, 1, 19, 20, 21, 80, 89, 90, 91, 175])
def test_entering_at_any_record(
    stream: RecordStream, first_epochs: list[bytes], start: int
) -> None:
    assert read(stream, 95, start) == first_epochs[start : start + 95]


def test_entering_opens_no_file_that_is_done(
    manifest: Manifest, tmp_path: Path
) -> None:
    shutil.copytree(manifest.folder, tmp_path, dirs_exist_ok=True)
    stream = make_streams(replace(manifest, folder=tmp_path), "train", 2)[0]
    written = {
        record: path
        for path in paths(stream)
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
    }
    whole = read(stream, 90, shuffle=4)
    opened = dict.fromkeys(written[record] for record in whole)
    done = list(opened)[:8]  # a group
    assert len(opened) == 10
    start = sum(written[record] in done for record in whole)
    for path in done:
        Path(path).unlink()
    start += -start % 4  # the next piece
    assert read(stream, 90 - start, start, shuffle=4) == whole[start:]


@pytest.mark.parametrize("shuffle", [1, 20, 90, 1000])
def test_each_epoch_has_every_record_once(stream: RecordStream, shuffle: int) -> None:
    assert stream.records == 90
    found = read(stream, 270, shuffle=shuffle)
    epochs = [found[:90], found[90:180], found[180:]]
    written = list(tf.data.TFRecordDataset(paths(stream)).as_numpy_iterator())
    assert all(sorted(epoch) == sorted(written) for epoch in epochs)
    assert len({tuple(epoch) for epoch in [*epochs, written]}) == 4


def test_no_more_records_than_wanted_are_in_memory(stream: RecordStream) -> None:
    pieces = stream.epochs(20, 1, 0).take(6).as_numpy_iterator()
    assert [len(piece) for piece in pieces] == [20, 20, 20, 20, 10, 20]


def test_streams_and_seeds_have_orders_of_their_own(
    manifest: Manifest, stream: RecordStream
) -> None:
    second = make_streams(manifest, "train", 2, first=1)[0]
    assert (stream.number, second.number) == (0, 1)
    assert sorted(read(stream, 90)) == sorted(read(second, 90))
    orders = [read(stream, 90), read(second, 90), read(stream, 90, seed=2)]
    assert len(set(map(tuple, orders))) == 3


def test_batches_of_shorter_records_are_larger(manifest: Manifest) -> None:
    def sizes(batch_size: int, **shared: int) -> list[int]:
        streams = make_streams(manifest, "train", batch_size, **shared)
        return [stream.batch_size for stream in streams]

    assert sizes(1) == [2, 1, 1]
    assert sizes(3) == [6, 4, 3]
    assert sizes(32) == sizes(32, workers=8) == [64, 40, 32]  # 42 is not shared by 8
    assert sizes(15, workers=5) == [30, 20, 15]
    assert sizes(48, workers=3) == [96, 48, 48]  # 64 is no multiple of 3
    assert sizes(12) == [24, 16, 12]
    assert sizes(12, parts=3) == [24, 12, 12]  # nor is 16, for micro-batches
    assert sizes(12, workers=2, parts=3) == [24, 12, 12]
    with pytest.raises(ConfigError, match=r"batch_size: 32 .* by 5 workers"):
        sizes(32, workers=5)
    with pytest.raises(ConfigError, match=r"2 workers in 3 micro-batches .* of 6"):
        sizes(15, workers=2, parts=3)


def test_each_length_has_its_own_contract(manifest: Manifest) -> None:
    streams = make_streams(manifest, "train", 2)
    assert [stream.features[0].shape for stream in streams] == [(4,), (6,), (8,)]
    assert [stream.records for stream in streams] == [90, 1, 5]
    assert [stream.batches for stream in streams] == [22.5, 0.5, 2.5]
