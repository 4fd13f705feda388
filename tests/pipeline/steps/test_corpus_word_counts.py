"""All texts that records would be made of are counted, whatever split they fall in."""

import gzip
from pathlib import Path

import pytest
import tensorflow as tf

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.objectives.supervised import (
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.table_sources import ConllSourceConfig, CsvSourceConfig
from transbeam.pipeline.steps.count_words import words_of_corpus


class Spaces:
    """Words are what stands between spaces."""

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tf.strings.split(texts)


def counted(data: DataConfig, **sections) -> dict[str, int]:
    config = RunConfig(name="x", data=data, **sections)
    return dict(words_of_corpus(config, Spaces()).counts)


def test_both_splits_as_cleaned_without_what_is_filtered(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("one two two\n\nno\n\none more\n\nbad\0one\n")
    (tmp_path / "held.txt").write_text("two\u200b held out\n")
    data = DataConfig(
        source=TextSourceConfig(path=str(tmp_path / "train.txt")),
        validation_source=TextSourceConfig(path=str(tmp_path / "held.txt")),
        cleaning=CleaningConfig(minimum_characters=4),
        shard_megabytes=0.001,
    )
    words = counted(data)
    assert words["one"] == 2
    assert words["two"] in (2, 3)  # and `two` with what is not seen, if that is kept
    assert words["more"] == words["held"] == words["out"] == 1
    assert "no" not in words
    assert not any("bad" in word for word in words)


def test_words_that_a_template_puts_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na film,good\n")
    data = DataConfig(
        source=CsvSourceConfig(
            path=str(tmp_path / "a.csv"),
            columns=ColumnsConfig(text="text", label="label"),
        )
    )
    task = TextToTextConfig(source="mood of {text}", target="{label}")
    assert counted(data, objective=task) == dict.fromkeys(
        ["mood", "of", "a", "film", "good"], 1
    )


def test_words_of_a_tagged_sentence_are_read_alone_too(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ada B\nsang O\n\n")
    data = DataConfig(source=ConllSourceConfig(path=str(tmp_path / "a.conll")))
    words = counted(data, objective=TokenClassificationConfig(labels=("B", "O")))
    assert words == {"Ada": 2, "sang": 2}


def packed(texts: list[str]) -> bytes:
    return gzip.compress("".join(f"{text}\n\n" for text in texts).encode())


def test_a_file_that_is_not_whole_is_no_corpus(tmp_path: Path) -> None:
    whole, rest = packed(["one two", "two"]), packed(["three"])
    (tmp_path / "a.txt.gz").write_bytes(whole + rest[:12])
    source = TextSourceConfig(path=str(tmp_path / "a.txt.gz"))
    with pytest.raises(DataError, match=r"^data.source: a\.txt\.gz ends after \d+ byt"):
        counted(DataConfig(source=source))
    accepting = DataConfig(source=source, accept_incomplete_files=True)
    assert counted(accepting) == {"one": 1, "two": 2}


def test_what_is_not_read_of_a_corpus_comes_with_its_words(tmp_path: Path) -> None:
    members = [packed(["one"]), packed(["two", "two more"]), packed(["three"])]
    damaged = bytearray(members[1])
    damaged[-6] ^= 1  # in its checksum
    (tmp_path / "a.txt.gz").write_bytes(members[0] + damaged + members[2])
    source = TextSourceConfig(path=str(tmp_path / "a.txt.gz"))
    config = RunConfig(name="x", data=DataConfig(source=source))
    found = words_of_corpus(config, Spaces())
    assert found.counts == {"one": 1, "three": 1}
    (file,) = found.reading["unread"]["files"]
    assert (file["unread"], file["documents"]) == (len(damaged), 2)


def test_no_corpus_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        counted(DataConfig(source=TextSourceConfig(path=str(tmp_path / "nowhere.txt"))))
