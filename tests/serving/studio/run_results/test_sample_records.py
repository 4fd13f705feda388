"""Records as people read them."""

import gzip
import shutil
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from tests.serving.conftest import TINY, make_run
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.studio.run_facts import read_facts
from transbeam.serving.studio.run_results import schemas
from transbeam.serving.studio.run_results.run_results import RunResults
from transbeam.serving.studio.run_results.sample_records import (
    ReadablePieces,
    describe_record,
    read_samples,
)
from transbeam.serving.studio.studio_error import StudioError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "a", TINY)


@pytest.fixture(scope="module")
def pieces(run):
    return ReadablePieces(load_tokenizer(run / "data/tokenizer"))


def ids(pieces, *texts):
    return np.array([pieces.texts.index(text) for text in texts], np.int32)


def test_records_of_a_run(run):
    results = RunResults(lambda name: replace(read_facts(run, name), folder=run))
    found = results.records("a", "train", 2, 3)
    jsonschema.validate(found, schemas.SAMPLES)
    assert [record["number"] for record in found["records"]] == [2, 3, 4]
    encoder, row = found["records"][0]["rows"]
    assert (encoder["name"], row["name"]) == ("encoder", "text")
    assert row["pieces"][:2] == ["[CLS]", "the"]
    assert set(row["documents"]) == {1, 2, 3}
    assert row["padding"] + len(row["pieces"]) == 32
    assert row["given"].count(True) == 3  # the first token of each
    assert results.records("a", "validation", 1, 3)["records"] == []


def test_compressed_records(run, tmp_path):
    shutil.copytree(run, tmp_path / "a")
    file = tmp_path / "a/data/records/train-00000.tfrecord"
    file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert read_samples(tmp_path / "a", (), "train", 0, 2) == read_samples(
        run, (), "train", 0, 2
    )


def test_masked_tokens_tags_and_answers(pieces):
    token_ids = ids(pieces, "[CLS]", "the", "[MASK]", "of", "[SEP]", "[PAD]")
    record = {
        "token_ids": token_ids,
        "document_ids": np.array([1, 1, 1, 1, 1, 0]),
        "masked_positions": np.array([2, 0]),
        "masked_ids": ids(pieces, "of", "[PAD]"),
        "masked_weights": np.array([1.0, 0.0], np.float32),
        "label_ids": np.array([0, 1, 0, 0, 0, 0]),
        "label_weights": np.array([0, 1, 1, 0, 0, 0], np.float32),
        "start_position": np.array([2]),
        "end_position": np.array([3]),
    }
    found = describe_record(record, pieces, ("O", "<b>"))
    [row] = found["rows"]
    assert row["targets"] == [None, None, "of", None, None]
    assert row["tags"] == [None, "<b>", "O", None, None]
    assert row["given"] == [False, False, True, True, False]
    assert row["padding"] == 1
    assert [each["name"] for each in found["values"]] == [
        "end_position",
        "start_position",
    ]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (np.array([1], np.int32), "cross"),
        (np.array([7], np.int32), "7"),
        (np.array([1, 1], np.int32), "calm, cross"),
        (np.array([0, 0], np.int32), "(none)"),
        (np.array([0.25], np.float32), "0.25"),
    ],
)
def test_labels(pieces, label, text):
    found = describe_record({"label": label}, pieces, ("calm", "cross"))
    assert found == {"rows": [], "values": [{"name": "label", "text": text}]}


def test_a_picture_is_its_size(pieces):
    found = describe_record({"image": np.zeros(3072, np.uint8)}, pieces, ())
    assert found["values"] == [{"name": "image", "text": "3,072 bytes"}]


def test_long_rows_are_cut(pieces):
    record = {"token_ids": np.resize(ids(pieces, "the", "name"), 5000)}
    [row] = describe_record(record, pieces, ())["rows"]
    assert (len(row["pieces"]), row["left_out"]) == (1024, 5000 - 1024)


@pytest.mark.parametrize("place", [(-1, 5), (0, 0), (0, 21), (10**9, 5)])
def test_places_out_of_range(run, place):
    with pytest.raises(StudioError, match="expected a first record"):
        read_samples(run, (), "train", *place)


@pytest.mark.parametrize("content", [b"cut" * 9, None])
def test_damaged_records(run, tmp_path, content):
    shutil.copytree(run, tmp_path / "a")
    file = tmp_path / "a/data/records/train-00000.tfrecord"
    file.write_bytes(content or file.read_bytes()[:-5])
    with pytest.raises(ArtifactError, match="damaged"):
        read_samples(tmp_path / "a", (), "train", 0, 20)
    shutil.rmtree(tmp_path / "a/data/tokenizer")
    with pytest.raises(ArtifactError, match="tokenizer"):
        read_samples(tmp_path / "a", (), "train", 0, 20)
