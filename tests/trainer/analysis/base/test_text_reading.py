"""Texts of an analysis: the documents of records, and the lines of a file."""

import numpy as np
import pytest

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.pipeline.evaluation_set import read_validation_documents
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.analysis.base.text_reading import (
    read_records,
    read_text_file,
    unpack_documents,
)

ENCODER = EncoderConfig(num_layers=1, hidden_dim=8, max_sequence_length=8)


@pytest.fixture
def data(small_trained):
    return small_trained / "data"


@pytest.fixture
def tokenizer(data):
    return load_tokenizer(data / "tokenizer")


@pytest.fixture
def write(tmp_path):
    def write_file(content: bytes):
        path = tmp_path / "texts.txt"
        path.write_bytes(content)
        return path

    return write_file


def test_documents_of_the_validation_split(data, small_trained, tokenizer):
    """Without the masks of the records they are the documents of the corpus."""
    manifest = read_manifest(data)
    config = load_run(small_trained)
    expected = read_validation_documents(manifest, config.data).texts()
    found = read_records(manifest, "validation", 10_000)
    assert found.name == "validation"
    special = tokenizer.special
    rows = [row["token_ids"] for row in found.rows]
    assert {(row[0], row[-1]) for row in rows} == {(special.begin, special.end)}
    size = config.data.sequence_length - 2
    whole = tokenizer.tokenize(expected).to_list()
    chunks = [ids[at : at + size] for ids in whole for at in range(0, len(ids), size)]
    assert sorted(row[1:-1].tolist() for row in rows) == sorted(chunks)


def test_training_records(data):
    manifest = read_manifest(data)
    assert read_records(manifest, "train", 5).name == "training"
    assert len(read_records(manifest, "train", 5)) == 5


def test_pairs_and_labels_stay_together():
    records = {
        "encoder_token_ids": np.array([[1, 2, 3, 0], [4, 4, 5, 5]]),
        "encoder_document_ids": np.array([[1, 1, 2, 0], [1, 1, 2, 2]]),
        "decoder_token_ids": np.array([[6, 7, 7, 7], [8, 9, 9, 0]]),
        "decoder_document_ids": np.array([[1, 2, 2, 2], [1, 2, 2, 0]]),
        "label": np.array([0, 1]),
    }
    found = [
        (
            *(row[f"{s}_token_ids"].tolist() for s in ("encoder", "decoder")),
            row["label"],
        )
        for row in unpack_documents(records)
    ]
    assert found == [
        ([1, 2], [6], 0),
        ([3], [7, 7, 7], 0),
        ([4, 4], [8], 1),
        ([5, 5], [9, 9], 1),
    ]


def test_images():
    images = np.arange(8, dtype=np.uint8).reshape(2, 2, 2, 1)
    rows = list(unpack_documents({"image": images, "label": np.array([1, 0])}))
    assert [int(row["label"]) for row in rows] == [1, 0]
    np.testing.assert_array_equal(rows[1]["image"], images[1])


def test_lines_of_a_file(write, tokenizer):
    path = write("the model\r\n\n  \nreads a batch of tokens é\n".encode())
    found, truncated = read_text_file(path, ENCODER, tokenizer, 10)
    assert found.texts == ("the model", "reads a batch of tokens é")
    ids = tokenizer.tokenize(found.texts or ()).to_list()
    special = tokenizer.special
    for row, expected in zip(found.rows, ids, strict=True):
        kept = [special.begin, *expected[:6], special.end]
        assert row["token_ids"].tolist() == kept
    assert truncated == sum(len(row) > 6 for row in ids)


def test_most_texts(write, tokenizer):
    found, _ = read_text_file(write(b"the\n\nmodel\nreads\n"), ENCODER, tokenizer, 2)
    assert found.texts == ("the", "model")


def test_segments_of_an_encoder(write, tokenizer):
    path = write(b"the model")
    config = EncoderConfig(num_segments=2)
    found, _ = read_text_file(path, config, tokenizer, 2)
    assert found.rows[0]["segment_ids"].tolist() == [0] * len(
        found.rows[0]["token_ids"]
    )


def test_a_decoder_gets_no_end(write, tokenizer):
    found, _ = read_text_file(write(b"the model"), DecoderConfig(), tokenizer, 2)
    (row,) = found.rows
    assert row["token_ids"][0] == tokenizer.special.begin
    assert row["token_ids"][-1] != tokenizer.special.end


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "has no text"), (b"\n \n", "has no text"), (b"\xff\xfe", "is not UTF-8")],
)
def test_files_without_texts(write, tokenizer, content, message):
    with pytest.raises(DataError, match=message):
        read_text_file(write(content), ENCODER, tokenizer, 2)


def test_missing_file(tmp_path, tokenizer):
    with pytest.raises(DataError, match="cannot be read"):
        read_text_file(tmp_path / "none.txt", ENCODER, tokenizer, 2)


def test_pairs_are_not_read_from_lines(write, tokenizer):
    with pytest.raises(ConfigError, match="reads pairs of texts"):
        read_text_file(write(b"a"), Seq2SeqModelConfig(), tokenizer, 2)
