"""A SavedModel in a session: what it answers, and what becomes of all that is wrong."""

import gc
import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode

from tests.harness.stages import copy_of
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.inference import servable as servable_module
from transbeam.serving.server.inference.servable import Servable

PATIENCE = 60


@pytest.fixture(scope="module")
def servable(half_plus_two):
    servable = Servable(half_plus_two / "123")
    yield servable
    servable.close()


@pytest.fixture
def copied(half_plus_two, tmp_path):
    return copy_of(half_plus_two / "123", tmp_path / "1")


class Constants(tf.Module):
    """Outputs that have nothing to do with rows."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def constants(self, x):
        return {
            "name": tf.constant("ä"),
            "names": tf.constant(["a", "b"]),
            "size": tf.size(x),
        }


def floats(*values):
    return {"x": np.array(values, np.float32)}


def texts(*values):
    return {"text": np.array([value.encode() for value in values], object)}


def ask(servable, name, inputs, *outputs, **changes):
    return servable.run(servable.signatures[name], inputs, outputs, **changes)


def test_what_it_is_asked_it_answers(servable):
    answer = ask(servable, "serving_default", floats(1, 2, 5), "y")
    assert answer.keys() == {"y"}
    assert answer["y"].dtype == np.float32
    assert answer["y"].tolist() == [2.5, 3.0, 4.5]


@pytest.mark.parametrize(
    "outputs", [["y"], ["as_text"], ["as_text", "y"], ["y", "as_text"]]
)
def test_only_what_is_asked_for_is_answered(servable, outputs):
    expected = {"y": [9.0], "as_text": [b"3"]}
    inputs = {"scale": np.array([3], np.int32), **floats(2)}
    answer = ask(servable, "two", inputs, *outputs)
    assert list(answer) == outputs
    for name, values in answer.items():
        assert values.tolist() == expected[name]


def test_texts_go_in_and_out(servable):
    answer = ask(servable, "codes", texts("ä", "a€"), "codes")
    assert answer["codes"].tolist() == [[0xE4, -1], [ord("a"), 0x20AC]]


def test_outputs_that_are_one_thing_are_arrays(tmp_path):
    model = Constants()
    tf.saved_model.save(model, str(tmp_path / "1"), signatures=model.constants)
    servable = Servable(tmp_path / "1")
    names = ["name", "names", "size"]
    answer = ask(servable, "serving_default", floats(1, 2, 3), *names)
    servable.close()
    assert all(isinstance(values, np.ndarray) for values in answer.values())
    assert answer["name"].tolist() == "ä".encode()
    assert answer["names"].tolist() == [b"a", b"b"]
    assert answer["size"].tolist() == 3


def test_signatures(servable):
    assert "__saved_model_init_op" in servable.signatures
    signature = servable.signatures["serving_default"]
    assert signature.dtypes == {"x": tf.float32.as_datatype_enum}
    assert signature.shape("x") == [None]
    assert servable.signatures["sums"].shape("matrix") == [None, None]


def test_an_op_that_fails_says_why_and_not_where(servable):
    with pytest.raises(StatusError) as error:
        ask(servable, "rows", texts("good", "poison"), "rows")
    assert error.value.code is StatusCode.INVALID_ARGUMENT
    assert "poison" in error.value.message
    for part in ("Original stack", "Traceback", "Graph execution error", 'File "'):
        assert part not in error.value.message
    answer = ask(servable, "rows", texts("good"), "rows")
    assert answer["rows"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "inputs", "output"),
    [
        ("sums", {"matrix": np.array([1, 2], np.int32)}, "sums"),
        ("two", {**floats(1, 2, 3), "scale": np.array([1, 2], np.int32)}, "y"),
        ("serving_default", {"x": np.array([1, 2])}, "y"),
        ("serving_default", {"x": np.array([b"a"], object)}, "y"),
        ("serving_default", {}, "y"),
        ("regress_x_to_y", {"inputs": np.array([b"\xff"], object)}, "outputs"),
    ],
)
def test_inputs_that_do_not_fit(servable, name, inputs, output):
    with pytest.raises(StatusError) as error:
        ask(servable, name, inputs, output)
    assert error.value.code is StatusCode.INVALID_ARGUMENT
    assert error.value.message


def test_inputs_in_any_order_are_prepared_once(copied):
    servable = Servable(copied)
    inputs = {**floats(1), "scale": np.array([3], np.int32)}
    turned = dict(reversed(inputs.items()))
    answers = [ask(servable, "two", each, "y") for each in (inputs, turned)]
    assert [answer["y"].tolist() for answer in answers] == [[7.5], [7.5]]
    assert len(servable._prepared) == 1
    servable.close()


def test_beyond_some_choices_of_outputs_all_are_computed(servable, monkeypatch):
    """Each choice is kept by TensorFlow, so a client must not make up ever more."""
    monkeypatch.setattr(servable_module, "_PREPARED", 1)
    monkeypatch.setattr(servable, "_prepared", set())
    run, fetched = servable.run_tensors, []

    def running(fed, values, names, *arguments, **how):
        fetched.append(len(names))
        return run(fed, values, names, *arguments, **how)

    monkeypatch.setattr(servable, "run_tensors", running)
    answers = [
        ask(servable, "rows", texts("a", "bcd"), *outputs)
        for outputs in (["length"], ["rows"], ["length"])
    ]
    assert fetched == [1, 2, 1]
    assert [list(answer) for answer in answers] == [["length"], ["rows"], ["length"]]
    assert answers[0]["length"].tolist() == answers[2]["length"].tolist() == [1, 3]


def test_several_threads_ask_at_once(servable):
    start = threading.Barrier(8)

    def many(number):
        start.wait(PATIENCE)
        for i in range(100):
            value = number * 100 + i
            if i % 2:
                answer = ask(servable, "serving_default", floats(value), "y")
                assert answer["y"].tolist() == [value / 2 + 2]
            else:
                text = "a" * (value + 1)
                answer = ask(servable, "rows", texts(text), "length", seconds=60.0)
                assert answer["length"].tolist() == [len(text)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(many, range(8), timeout=PATIENCE))


def test_what_takes_long_is_answered_as_others_are(servable):
    answer = ask(servable, "serving_default", floats(1), "y", takes_long=True)
    assert answer["y"].tolist() == [2.5]


def test_a_call_with_time_enough_is_answered(servable):
    answer = ask(servable, "serving_default", floats(1), "y", seconds=60.0)
    assert answer["y"].tolist() == [2.5]


def no_folder(folder):
    shutil.rmtree(folder)


def empty_folder(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def cut_off_graph(folder):
    file = folder / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-100])


def no_graph_to_speak_of(folder):
    (folder / "saved_model.pb").write_bytes(b"")


def noise_for_a_graph(folder):
    (folder / "saved_model.pb").write_bytes(bytes(range(256)) * 4)


def no_variables(folder):
    shutil.rmtree(folder / "variables")


def cut_off_variables(folder):
    (file,) = folder.glob("variables/variables.data-*")
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        no_folder,
        empty_folder,
        cut_off_graph,
        no_graph_to_speak_of,
        noise_for_a_graph,
        no_variables,
        cut_off_variables,
    ],
)
def test_what_cannot_be_loaded_is_a_failure(copied, damage):
    damage(copied)
    with pytest.raises(StatusError) as error:
        Servable(copied)
    assert error.value.message
    assert "Traceback" not in error.value.message


def test_closing_gives_its_memory_back(copied):
    servable = Servable(copied)
    ask(servable, "serving_default", floats(1), "y")
    graph, session = weakref.ref(servable._graph), weakref.ref(servable._session)
    servable.close()
    gc.collect()
    assert (graph(), session()) == (None, None)
