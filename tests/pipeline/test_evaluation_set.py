"""Documents of a test set are found again, and their images stay on the disk."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig, PatchesConfig
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import ArraysSourceConfig
from transbeam.pipeline.evaluation_set import (
    _stretches,
    make_evaluation_set,
    read_validation_documents,
)
from transbeam.pipeline.records.shard_writer import provenance_path
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

SIDE, COUNT = 64, 40


def run_on(folder: Path) -> RunConfig:
    """Images of random pixels, in parts of some of them."""
    pixels = np.random.default_rng(1).integers(0, 256, (COUNT, SIDE, SIDE, 3), "uint8")
    labels = np.arange(COUNT) % 2
    np.savez(folder / "images.npz", images=pixels, labels=labels)
    return RunConfig(
        name="images",
        data=DataConfig(
            source=ArraysSourceConfig(path=str(folder / "images.npz")),
            shard_megabytes=0.1,
        ),
        objective=ImageClassificationConfig(labels=("0", "1"), image_size=SIDE),
        model=EncoderConfig(patches=PatchesConfig(image_size=SIDE)),
    )


def test_images_stay_on_the_disk(tmp_path: Path) -> None:
    config = run_on(tmp_path)
    tokenizer = WordPieceTokenizer(SPECIAL_PIECES)
    made = make_evaluation_set(config, config.data.source, tokenizer, tmp_path / "set")
    before = pa.total_allocated_bytes()
    held_out = read_validation_documents(made.manifest, made.config.data)
    assert held_out.values("label") == ["0", "1"] * (COUNT // 2)
    kept = pa.total_allocated_bytes() - before
    assert kept < SIDE * SIDE * 3  # not even one of them

    assert len(held_out) == COUNT
    assert len(held_out.parts) > 1
    for number in (0, 7, COUNT - 1):
        found = held_out.one(number)
        pixels = np.load(tmp_path / "images.npz")["images"][found["offset"]]
        assert found["image"] == pixels.tobytes()
        assert (found["offset"], found["label"]) == (number, str(number % 2))


def test_segments_of_documents_outside_of_validation_are_left_out(tmp_path) -> None:
    """Such as the second ones of negative pairs, if validation has one document."""
    name = "validation-00000-00"
    provenance_path(tmp_path, name).parent.mkdir()
    columns = {
        "record": pa.array([0, 0, 1, 1], pa.int32()),
        "source": ["a.txt", "b.txt", "a.txt", "a.txt"],
        "offset": [0, 5, 0, 0],
        "token": [0, 8, 3, 6],
    }
    pq.write_table(pa.table(columns), provenance_path(tmp_path, name))
    shard = SimpleNamespace(path=f"records/{name}.tfrecord")
    found = _stretches(tmp_path, shard, {("a.txt", 0): 4})
    assert found.record.tolist() == [0, 1, 1]
    assert found.document.tolist() == [4, 4, 4]
    assert found.offset.tolist() == [0, 3, 6]
