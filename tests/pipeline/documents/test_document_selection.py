from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.documents.split_rule import split_of
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import (
    in_validation,
    is_validation,
    select_documents,
)
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    documents_path,
    mark_done,
)

CONFIG = RunConfig(
    name="kept",
    seed=5,
    data=DataConfig(source=TextSourceConfig(path="x"), validation_fraction=0.25),
    training=TrainingConfig(steps=1000),
)
DOCUMENTS = [Document(f"text {i}", "f", i) for i in range(4000)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    (tmp_path / "documents").mkdir()
    path = documents_path(tmp_path, DocumentPart(0, 0, 1))
    DocumentBatch.from_documents(DOCUMENTS).save(path)
    return tmp_path


def test_splits_by_key_as_for_a_single_document(folder: Path) -> None:
    kept = select_documents(folder, DocumentPart(0, 0, 1), CONFIG)
    for split, batch in kept.splits.items():
        assert {split_of(int(key), 0.25) for key in batch.keys} == {split}
    assert sum(kept.documents.values()) == 4000
    assert 900 < kept.documents["validation"] < 1100
    assert kept.left_out == 0


def test_the_ends_of_the_validation_range() -> None:
    keys = np.array([0, 2**62 - 1, 2**62, 2**64 - 1], np.uint64)
    assert in_validation(keys, 0.25).tolist() == [True, True, False, False]
    assert not in_validation(keys, 0.0).any()


def test_a_validation_source_is_held_out_and_nothing_else(folder: Path) -> None:
    data = replace(CONFIG.data, validation_source=TextSourceConfig(path="y"))
    config = replace(CONFIG, data=data)
    held_out, training = DocumentPart(0, 0, 1, held_out=True), DocumentPart(0, 0, 1)
    keys = np.array([0, 2**64 - 1], np.uint64)
    assert is_validation(keys, held_out, data).tolist() == [True, True]
    assert is_validation(keys, training, data).tolist() == [False, False]
    assert is_validation(keys, training, CONFIG.data).tolist() == [True, False]
    assert select_documents(folder, held_out, config).documents == {
        "train": 0,
        "validation": 4000,
    }
    assert select_documents(folder, training, config).documents == {
        "train": 4000,
        "validation": 0,
    }


def test_duplicates_are_dropped(folder: Path) -> None:
    dropped = {"exact": [0, 7], "near": [3]}
    mark_done(folder, "duplicates", DocumentPart(0, 0, 1).name, dropped)
    kept = select_documents(folder, DocumentPart(0, 0, 1), CONFIG)
    offsets = [o for batch in kept.splits.values() for o in batch.values("offset")]
    assert sorted(offsets) == sorted(set(range(4000)) - {0, 3, 7})


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.5])
def test_weights_repeat_and_leave_out_training_documents(folder, weight) -> None:
    kept = select_documents(folder, DocumentPart(0, 0, 1, weight), CONFIG)
    train = kept.splits["train"]
    of_train = 4000 - kept.documents["validation"]
    assert kept.documents["train"] + kept.left_out == of_train
    assert len(train) == pytest.approx(weight * of_train, abs=150)
    assert len(set(train.keys.tolist())) == len(train)
    times = np.unique(train.values("offset"), return_counts=True)[1]
    assert set(times.tolist()) <= {int(weight), int(weight) + 1}
    assert len(kept.splits["validation"]) == kept.documents["validation"]
