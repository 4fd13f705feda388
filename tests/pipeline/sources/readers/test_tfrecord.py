"""TFRecords of Examples, as TensorFlow writes them, and damaged ones."""

import gzip
import struct

import pytest
import tensorflow as tf

from tests.pipeline.sources.readers.read_one_file import read_file, reasons, texts
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import TFRecordSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Document
from transbeam.pipeline.sources.readers import tfrecord


def feature(*values):
    match values[0]:
        case bytes():
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        case int():
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        case _:
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(**features) -> bytes:
    inner = tf.train.Features(feature=features)
    return tf.train.Example(features=inner).SerializeToString()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.tfrecord"


def write(path, *records: bytes) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def read(path, **columns):
    source = TFRecordSourceConfig(path=str(path), columns=ColumnsConfig(**columns))
    return read_file(tfrecord, source)


def test_every_type_of_feature(path):
    full = example(
        text=feature("größe".encode()),
        stars=feature(-4),
        score=feature(3.8),
        tokens=feature(b"Hi", b"Ann"),
        ner=feature(0, 7),
        one=feature(b"New York"),
    )
    write(path, full)
    assert read(path, label="stars", target_text="score") == [
        Document("größe", "a.tfrecord", 0, target_text="3.8", label="-4")
    ]
    assert read(path, words="tokens", tags="ner") == [
        Document("Hi Ann", "a.tfrecord", 0, words=("Hi", "Ann"), tags=("0", "7"))
    ]
    assert read(path, text="tokens.1") == [Document("Ann", "a.tfrecord", 0)]
    (found,) = read(path, words="one")
    assert isinstance(found, Document)
    assert found.words == ("New York",)


def test_bad_records_are_rejected_one_by_one(path):
    write(
        path,
        example(text=feature(b"fine")),
        example(txt=feature(b"no text")),
        example(text=tf.train.Feature()),
        example(text=feature(b"\xff")),
        example(text=feature(5)),
        b"no Example",
        example(text=feature(b"fine too")),
    )
    found = read(path)
    assert reasons(found) == [
        (1, "no field 'text'"),
        (2, "no field 'text'"),
        (3, "field 'text' is not UTF-8"),
        (4, "field 'text' is not text"),
        (5, "not a tf.train.Example"),
    ]
    assert len(found) == 7


def test_gzip(tmp_path):
    write(tmp_path / "a", *(example(text=feature(b"x" * i)) for i in range(1, 400)))
    (tmp_path / "a.gz").write_bytes(gzip.compress((tmp_path / "a").read_bytes()))
    found = read(tmp_path / "a.gz")
    assert texts(found) == ["x" * i for i in range(1, 400)]


def test_damaged_record_and_damaged_length(path):
    records = [example(text=feature(text)) for text in (b"one", b"two", b"three")]
    write(path, *records)
    whole = path.read_bytes()
    assert whole.count(b"two") == 1
    path.write_bytes(whole.replace(b"two", b"tow"))
    found = read(path)
    assert reasons(found) == [(1, "damaged record")]
    assert len(found) == 3
    path.write_bytes(struct.pack("<Q", 1 << 40) + whole[8:])
    with pytest.raises(BrokenFile, match="damaged TFRecord file"):
        read(path)


def test_truncated_anywhere(path):
    record = example(text=feature(b"one"))
    write(path, record, record)
    whole = path.read_bytes()
    assert len(read(path)) == 2
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size in (0, len(whole) // 2):  # between two records
            assert len(read(path)) == size * 2 // len(whole)
        else:
            with pytest.raises(BrokenFile, match="truncated TFRecord file"):
                read(path)
