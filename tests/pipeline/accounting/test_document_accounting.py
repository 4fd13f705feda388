from dataclasses import replace
from pathlib import Path

import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.accounting.document_accounting import (
    LEFT_OUT,
    check_balance,
    check_prepared,
    check_quarantine,
    sum_document_counts,
)
from transbeam.pipeline.documents.step_markers import mark_done, read_states
from transbeam.pipeline.sources.files.reading_report import detected_encodings

CONFIG = RunConfig(
    name="books",
    data=DataConfig(source=TextSourceConfig(path="x"), maximum_quarantine_fraction=0.1),
)
PREPARED = {
    "parts": [{"unit": 0, "number": 0, "size": 70, "weight": 1.0, "source_bytes": 900}],
    "documents": {"train": 15, "validation": 2},
    "filtered": {"empty": 1},
    "quarantined": {"binary": 2},
    "bytes": {"filtered": 50, "quarantined": 40, "unread": 10},
    "unread": [
        {
            "name": "a.parquet",
            "size": 500,
            "unread": 10,
            "documents": 9,
            "doubtful": False,
            "reasons": ["damaged Parquet row group"],
        }
    ],
}
BUILT = {
    "shards": [{"split": "train", "records": 4}],
    "documents": {"train": 10, "validation": 1},
    "counts": {"train": {"tokens": 90, "padding": 3, "cells": 128}},
    "left_out": 1,
    "filtered": {"fewer than two sentences": 1},
    "quarantined": {"no label": 1},
    "bytes": {"used": 500, "filtered": 370, "quarantined": 30},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    mark_done(tmp_path, "documents", "00000", PREPARED)
    mark_done(tmp_path, "duplicates", "00000-00", {"exact": [1, 4], "near": [7]})
    mark_done(tmp_path, "records", "00000-00", BUILT)
    return tmp_path


def test_every_document_is_in_the_books(folder: Path) -> None:
    counts = sum_document_counts(folder)
    assert counts["read"] == 20
    assert counts["documents"] == {"train": 10, "validation": 1}
    assert counts["filtered"] == {
        "empty": 1,
        "exact duplicate": 2,
        "fewer than two sentences": 1,
        LEFT_OUT: 1,
        "near duplicate": 1,
    }
    assert counts["quarantined"] == {"binary": 2, "no label": 1}
    assert counts["bytes"] == {
        "source": 1000,
        "used": 500,
        "filtered": 420,
        "quarantined": 70,
        "unread": 10,
    }
    assert counts["tokens"] == {"train": 90}
    assert counts["records"] == {"train": 4}
    check_balance(counts)


def test_what_readers_report_is_added_up(folder: Path) -> None:
    for name, count in (("00001", 3), ("00002", 4)):
        report = {
            "dropped": {"<math>": count, **{f"{{{{{i}}}}}": 1 for i in range(120)}},
            "encodings": {f"{name}.txt": ["cp1251", 0.75]},
            "page_encodings": {"koi8-r": count},
        }
        mark_done(folder, "documents", name, {**PREPARED, **report})
    dropped = sum_document_counts(folder)["dropped_in_sentences"]
    assert list(dropped.items())[:2] == [("<math>", 7), ("{{0}}", 2)]
    assert len(dropped) == 101
    assert dropped["others"] == 2 * (120 - 99)
    assert detected_encodings(read_states(folder, "documents")) == [
        {"file": "00001.txt", "codec": "cp1251", "confidence": 0.75},
        {"file": "00002.txt", "codec": "cp1251", "confidence": 0.75},
        {"web_pages": 7, "codec": "koi8-r"},
    ]


def test_a_lost_document_is_a_bug(folder: Path) -> None:
    mark_done(folder, "records", "00000-00", {**BUILT, "left_out": 0})
    with pytest.raises(RuntimeError, match="20 documents read, 19 in the books"):
        check_balance(sum_document_counts(folder))


def test_a_lost_byte_is_a_bug(folder: Path) -> None:
    bytes_ = {**BUILT["bytes"], "used": 499}
    mark_done(folder, "records", "00000-00", {**BUILT, "bytes": bytes_})
    with pytest.raises(RuntimeError, match="1000 bytes of source, 999 in the books"):
        check_balance(sum_document_counts(folder))


def with_limit(fraction: float, **changes: bool) -> RunConfig:
    data = replace(CONFIG.data, maximum_quarantine_fraction=fraction, **changes)
    return replace(CONFIG, data=data)


def prepared(folder: Path, bytes_: dict[str, int], *files: dict[str, object]) -> None:
    told = [{**PREPARED["unread"][0], **file} for file in files]
    state = {**PREPARED, "bytes": bytes_, "unread": told}
    mark_done(folder, "documents", "00000", state)


def test_the_limit_is_held_against_bytes_as_well(folder: Path) -> None:
    # 3 of 20 documents are quarantined: 15%. Of 1,000 bytes, 30 + 60 and 110 unread.
    bytes_ = {"filtered": 0, "quarantined": 60, "unread": 110}
    prepared(folder, {**bytes_, "filtered": -70}, {"unread": 110})
    check_quarantine(with_limit(0.2), folder)
    with pytest.raises(DataError) as caught:
        check_quarantine(with_limit(0.199), folder)
    assert "200 of 1,000 bytes of source could not be used" in str(caught.value)
    assert "Not read: 110 of 500 bytes of a.parquet." in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "truncated gzip stream",
            "a.gz ends after 500 bytes, 9 documents; the rest is not in the file",
        ),
        ("damaged gzip stream", r"a.gz is damaged \(damaged gzip stream\): .* wrong"),
    ],
)
def test_a_file_that_is_not_whole_is_over_any_limit(folder, reason, told) -> None:
    file = {"name": "a.gz", "unread": 0, "doubtful": True, "reasons": [reason]}
    prepared(folder, PREPARED["bytes"], file)
    with pytest.raises(DataError, match=told):
        check_quarantine(with_limit(1.0), folder)
    check_quarantine(with_limit(1.0, accept_incomplete_files=True), folder)


def test_too_much_in_quarantine(folder: Path) -> None:
    with pytest.raises(DataError, match=r"3 of 20 .* \(2 × binary, 1 × no label\)"):
        check_quarantine(CONFIG, folder)


def test_nothing_left_for_training(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    empty = {**PREPARED, "documents": {"train": 0, "validation": 30}}
    mark_done(tmp_path, "documents", "00000", empty)
    with pytest.raises(
        DataError, match="no document is left for training: 33 documents read"
    ):
        check_prepared(CONFIG, tmp_path)


def test_nothing_left_of_the_validation_source(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    empty = {**PREPARED, "documents": {"train": 30, "validation": 0}}
    mark_done(tmp_path, "documents", "00000", empty)
    check_prepared(CONFIG, tmp_path)
    data = replace(CONFIG.data, validation_source=TextSourceConfig(path="y"))
    expected = r"data.validation_source: no document of it is left.* 33 documents read"
    with pytest.raises(DataError, match=expected):
        check_prepared(replace(CONFIG, data=data), tmp_path)
