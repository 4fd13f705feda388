"""Metadata is written where readers look for it, and the model stays what it was."""

import io
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from tensorflow.lite.python import schema_py_generated as schema

from tests.serving.phone.tflite_format.metadata_reader import (
    read_files,
    read_metadata,
    read_table,
)
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.phone.tflite_format.flatbuffer_io import write_table
from transbeam.serving.phone.tflite_format.tflite_metadata import (
    TextModelMetadata,
    with_metadata,
)
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec

VOCABULARY = "[PAD]\n[UNK]\nké\n".encode()
LENGTH = 8
INPUTS = ("ids", "mask", "segment_ids")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A file with weights, whose last input changes nothing."""
    table = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)

    def answer(ids, mask, segment_ids):
        weights = tf.expand_dims(tf.cast(mask, tf.float32), 2)
        return {"score": tf.reduce_sum(tf.gather(table, ids) * weights, axis=1)}

    inputs = [ids_spec(name, 1, LENGTH) for name in INPUTS]
    folder = tmp_path_factory.mktemp("plain")
    endpoints = {"score": Endpoint(answer, inputs)}
    return convert(endpoints, LENGTH, folder)


def metadata(**others):
    return TextModelMetadata(
        **{
            "name": "moods",
            "description": "Which mood?",
            "version": "3",
            "inputs": {name: f"The {name}." for name in INPUTS},
            "output": ("probability", "Of each class."),
            "tokenizer": "wordpiece",
            "tokenizer_file": ("vocab.txt", VOCABULARY),
            "labels": ("böse", "so so"),
            **others,
        }
    )


def test_says_what_it_was_told(plain):
    found = read_metadata(with_metadata(plain, metadata()))
    (subgraph,) = found.pop("subgraph_metadata")
    assert found == {
        "name": "moods",
        "description": "Which mood?",
        "version": "3",
        "min_parser_version": "1.1.0",
    }
    numbers = {"content_properties": ("FeatureProperties", {})}
    assert subgraph == {
        "input_tensor_metadata": [
            {"name": name, "description": f"The {name}.", "content": numbers}
            for name in order_of_inputs(plain)
        ],
        "output_tensor_metadata": [
            {
                "name": "probability",
                "description": "Of each class.",
                "content": numbers,
                "associated_files": [{"name": "labels.txt", "type": 2}],
            }
        ],
        "input_process_units": [
            {
                "options": (
                    "BertTokenizerOptions",
                    {"vocab_file": [{"name": "vocab.txt", "type": 5}]},
                )
            }
        ],
    }


def order_of_inputs(content):
    """The order is the converter's, not that of the function."""
    subgraph = schema.Model.GetRootAsModel(content, 0).Subgraphs(0)
    places = [subgraph.Inputs(i) for i in range(subgraph.InputsLength())]
    names = [subgraph.Tensors(place).Name().decode() for place in places]
    assert len(names) == 3
    return [name.removeprefix("score_").removesuffix(":0") for name in names]


def test_of_an_embedder_with_sentencepiece(plain):
    told = metadata(
        labels=None, tokenizer="sentencepiece", tokenizer_file=("s.model", b"\x00\xff")
    )
    content = with_metadata(plain, told)
    (subgraph,) = read_metadata(content)["subgraph_metadata"]
    (unit,) = subgraph["input_process_units"]
    assert unit["options"] == (
        "SentencePieceTokenizerOptions",
        {"sentencePiece_model": [{"name": "s.model", "type": 5}]},
    )
    assert "associated_files" not in subgraph["output_tensor_metadata"][0]
    assert read_files(content) == {"s.model": b"\x00\xff"}


def test_brings_its_files_along(plain):
    content = with_metadata(plain, metadata())
    assert read_files(content) == {
        "vocab.txt": VOCABULARY,
        "labels.txt": "böse\nso so\n".encode(),
    }
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {of.compress_type for of in archive.infolist()} == {zipfile.ZIP_STORED}


def test_a_file_without(plain):
    assert read_metadata(plain) == {}
    assert read_files(plain) == {}


def test_is_the_same_each_time(plain):
    assert with_metadata(plain, metadata()) == with_metadata(plain, metadata())


def test_answers_as_before(plain):
    asked = {
        "ids": np.arange(LENGTH, dtype=np.int32)[np.newaxis],
        "mask": np.ones((1, LENGTH), np.int32),
        "segment_ids": np.zeros((1, LENGTH), np.int32),
    }

    def ask(content, **inputs):
        interpreter = Interpreter(model_content=content, num_threads=1)
        return interpreter.get_signature_runner("score")(**inputs)["score"]

    content = with_metadata(plain, metadata())
    expected = ask(plain, **asked)
    np.testing.assert_array_equal(ask(content, **asked), expected)
    # The input that the model has no use for is there, and does nothing.
    asked["segment_ids"][:] = 7
    np.testing.assert_array_equal(ask(content, **asked), expected)
    asked["ids"][:] = 7
    assert (ask(content, **asked) != expected).any()


def test_weights_stand_where_the_schema_wants_them(plain):
    content = with_metadata(plain, metadata())
    model = schema.Model.GetRootAsModel(content, 0)
    places = []
    for number in range(model.BuffersLength()):
        buffer = model.Buffers(number)
        if buffer.DataLength():
            places.append(buffer._tab.Vector(buffer._tab.Offset(4)))
    assert len(places) > 2
    assert {place % 16 for place in places} == {0}


def test_is_read_by_tensorflow_s_own_classes(plain):
    """Not only by the reader that stands beside the writer."""
    content = with_metadata(plain, metadata())
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    (entry,) = (of for of in model.metadata if of.name == b"TFLITE_METADATA")
    assert bytes(model.buffers[entry.buffer].data[4:8]) == b"M001"
    assert content[4:8] == b"TFL3"
    assert len(model.subgraphs) == len(model.signatureDefs) == 1


def test_a_field_that_is_not_of_the_schema():
    tables = {"Shelf": {"books": None, "name": "string"}}
    with pytest.raises(KeyError, match="Shelf has no books"):
        write_table(tables, "Shelf", {"books": []}, "BOOK")


def test_a_place_without_a_field_counts():
    """Fields are told by their order: else a name would be read as a title."""
    content = write_table({"Shelf": {"name": "string"}}, "Shelf", {"name": "a"}, "BOOK")
    tables = {"Shelf": {"title": None, "name": "string"}}
    assert read_table(tables, "Shelf", content) == {}
