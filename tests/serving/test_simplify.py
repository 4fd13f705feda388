"""A SavedModel that is simplified has fewer nodes, and answers as it did."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from configs.errors import ArtifactError
from serving.savedmodel import check_ops, write_endpoints
from serving.simplify import simplify
from tests.serving.session import session_on

TEXTS = ["one", "", "two words"]


def functions_of(folder):
    content = (folder / "saved_model.pb").read_bytes()
    (meta_graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return {
        function.signature.name: function
        for function in meta_graph.graph_def.library.function
    }


@pytest.fixture
def folder(tmp_path):
    """Looks words up, with a table, a loop and a draw: what must not be merged."""
    keys = tf.lookup.KeyValueTensorInitializer(["one", "two"], [1, 2])
    table = tf.lookup.StaticHashTable(keys, 0)
    weight = tf.Variable([1.0, 10.0, 100.0])

    def answer(text):
        words = tf.strings.split(text).to_tensor("")
        number = tf.shape(words)[1] * tf.constant(2) // tf.constant(2)

        def add(place, total):
            found = table.lookup(words[:, place])
            return place + 1, total + tf.gather(weight, found)

        _, total = tf.while_loop(
            lambda place, total: place < number,
            add,
            [tf.constant(0), tf.zeros(tf.shape(words)[:1])],
        )
        draws = [tf.random.uniform([2]) for _ in range(2)]
        return {"total": total, "draws": tf.stack(draws)}

    path = tmp_path / "model/1"
    inputs = [tf.TensorSpec([None], tf.string, "text")]
    resources = tf.Module()
    resources.table, resources.weight = table, weight
    write_endpoints(path, {"serving_default": (answer, inputs)}, [resources])
    return path


def test_fewer_nodes_the_same_functions_and_plain_ops(folder):
    before = functions_of(folder)
    simplify(folder)
    after = functions_of(folder)
    assert after.keys() == before.keys()
    for name, function in after.items():
        found, expected = function.signature, before[name].signature
        assert found.input_arg == expected.input_arg
        assert found.output_arg == expected.output_arg
        assert found.is_stateful == expected.is_stateful
    nodes = [sum(len(f.node_def) for f in of.values()) for of in (before, after)]
    assert nodes[1] < 0.75 * nodes[0]
    check_ops(folder)  # none that is for a certain processor


def test_it_answers_as_it_did(folder):
    with session_on(folder) as ask:
        before = ask("serving_default", {"text": TEXTS})
    simplify(folder)
    with session_on(folder) as ask:
        after = ask("serving_default", {"text": TEXTS})
    assert before["total"].tolist() == after["total"].tolist() == [11.0, 2.0, 101.0]
    assert (after["draws"][0] != after["draws"][1]).any()
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    found = loaded(text=tf.constant(TEXTS))["total"]
    assert np.array_equal(found, before["total"])


def test_the_fingerprint_is_of_what_is_there(folder):
    read = tf.saved_model.experimental.read_fingerprint
    before = read(str(folder))
    simplify(folder)
    after = read(str(folder))
    assert after.saved_model_checksum != before.saved_model_checksum
    assert after.signature_def_hash == before.signature_def_hash


def test_a_disk_that_refuses(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(ArtifactError, match="no space is left"):
        simplify(folder)
