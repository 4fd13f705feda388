"""A version that answers: warm before anybody gets in, there until all have left."""

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.server.sample_models.counting_model import save_counting, warm_up
from tests.serving.server.sample_models.half_plus_two_model import save_of_tensorflow_1
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.inference.servable import Servable
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.models.warmup_requests import FILE

PATIENCE = 60
SECONDS = 60.0


@pytest.fixture
def folder(half_plus_two, tmp_path):
    return shutil.copytree(half_plus_two / "123", tmp_path / "1")


@pytest.fixture
def timings():
    return []


@pytest.fixture
def loaded(half_plus_two, timings):
    """With a first batch that waits for company, so that what can meet does."""
    batching = BatchingParameters(max_batch_size=4, batch_timeout_micros=50_000)
    loaded = Loaded(half_plus_two / "123", batching, SECONDS, timings.append)
    yield loaded
    loaded.close(patience=0)


@pytest.fixture
def ran(monkeypatch):
    """The executed signatures and their inputs."""
    seen = []
    run = Servable.run

    def seeing(self, signature, inputs, outputs, *arguments, **how):
        seen.append((signature.name, inputs))
        return run(self, signature, inputs, outputs, *arguments, **how)

    monkeypatch.setattr(Servable, "run", seeing)
    return seen


def load(folder, *observe):
    return Loaded(folder, BatchingParameters(), SECONDS, lambda timing: None, *observe)


def predict(signature, **inputs):
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    return log


def examples(signature, *values, of="example_list"):
    log = prediction_log_pb2.PredictionLog()
    request = log.regress_log.request
    request.model_spec.signature_name = signature
    for x in values:
        example = getattr(request.input, of).examples.add()
        if x is not None:
            example.features.feature["x"].float_list.value.append(x)
    return log


def regress(x):
    return examples("regress_x_to_y", x)


def multi(*signatures, of="m"):
    """Two examples for several signatures at once."""
    log = prediction_log_pb2.PredictionLog()
    request = log.multi_inference_log.request
    for name in signatures:
        method = "classify" if name.startswith("classify") else "regress"
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = of, name
    request.input.CopyFrom(examples("", 1.0, 2.0).regress_log.request.input)
    return log


def write(folder, *records):
    (folder / FILE).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        for record in records:
            if not isinstance(record, bytes):
                record = record.SerializeToString()
            writer.write(record)


def submit(loaded, name, outputs, **inputs):
    return loaded.submit(loaded.signatures[name], inputs, outputs, Deadline.never())


def floats(*values):
    return np.array(values, np.float32)


def test_inputs_of_another_shape_are_run_alone(loaded, ran):
    """The length of a row is known only for shapes that the signature describes."""
    # tensorflow/serving: batching_session_test.cc:675 RequestThatDoesntMatchSignatureGe
    given = [floats(1, 2, 5), floats(1, 2, 5), floats([1], [2]), floats([1], [5])]
    answers = [submit(loaded, "column", ["y"], x=values) for values in given]
    found = [answer.result(PATIENCE)["y"].tolist() for answer in answers]
    assert found == [[2.5, 3, 4.5], [2.5, 3, 4.5], [[2.5], [3]], [[2.5], [4.5]]]
    shapes = [inputs["x"].shape for _, inputs in ran]
    assert sorted(shapes) == [(3,), (3,), (4, 1)]


def test_a_large_request_of_another_shape_is_not_cut_up(loaded, ran):
    answer = submit(loaded, "column", ["y"], x=np.ones(9, np.float32))
    assert answer.result(PATIENCE)["y"].tolist() == [2.5] * 9
    assert [inputs["x"].shape for _, inputs in ran] == [(9,)]


def test_its_requests_are_run_before_anybody_gets_in(folder, ran):
    # tensorflow/serving: saved_model_warmup_test.cc:79 MixedWarmupData
    write(
        folder,
        predict("", x=floats(1, 2)),
        predict("rows", text=["good"]),
        regress(80.0),
        prediction_log_pb2.PredictionLog(),
    )
    load(folder).close()
    names = ["serving_default", "rows", "regress_x_to_y"]
    assert [name for name, _ in ran] == names
    assert ran[0][1]["x"].tolist() == [1.0, 2.0]
    assert ran[1][1]["text"].tolist() == [b"good"]


def test_examples_with_what_they_share(folder, ran):
    log = examples("regress_x_to_y", None, 8.0, of="example_list_with_context")
    context = log.regress_log.request.input.example_list_with_context.context
    context.features.feature["x"].float_list.value.append(80.0)
    write(folder, log)
    load(folder).close()
    [(_, inputs)] = ran
    found = [tf.train.Example.FromString(row) for row in inputs["inputs"]]
    values = [row.features.feature["x"].float_list.value[0] for row in found]
    assert values == [80.0, 8.0]


def test_several_signatures_are_warmed_up_in_one_run(tmp_path, monkeypatch):
    # tensorflow/serving: saved_model_warmup.cc:64 RunMultiInference
    folder = save_of_tensorflow_1(tmp_path / "1")
    seen = []
    run = Servable.run_tensors

    def seeing(self, fed, values, fetched, seconds):
        seen.append((fed, [len(rows) for rows in values], fetched))
        return run(self, fed, values, fetched, seconds)

    monkeypatch.setattr(Servable, "run_tensors", seeing)
    write(folder, multi("regress_x_to_y", "classify_x_to_y"))
    loaded = load(folder)
    known = {name: s.definition for name, s in loaded.signatures.items()}
    fetched = {
        known["regress_x_to_y"].outputs["outputs"].name,
        known["classify_x_to_y"].outputs["scores"].name,
    }
    assert seen == [(("tf_example:0",), [2], tuple(sorted(fetched)))]
    loaded.close()


def test_requests_of_other_apis_are_passed_over(folder, ran):
    # tensorflow/serving: saved_model_warmup_test.cc:119 UnsupportedLogType_SessionRun
    log = prediction_log_pb2.PredictionLog()
    log.session_run_log.request.fetch.append("nothing that there is")
    write(folder, log)
    load(folder).close()
    assert ran == []


def test_who_wants_to_know_is_told_how_long_it_took(folder):
    seen = []

    def observe(status, seconds):
        seen.append(status)
        assert 0 < seconds < PATIENCE

    load(folder, observe).close()
    assert seen == []  # without requests there is nothing to tell
    write(folder, predict("", x=floats(1)))
    load(folder, observe).close()
    write(folder, predict("rows", text=["poison"]))
    with pytest.raises(StatusError):
        load(folder, observe)
    assert seen == ["OK", "INVALID_ARGUMENT"]


def test_where_a_stream_begins_it_goes_on_until_all_is_warm(tmp_path, ran):
    folder = save_counting(tmp_path / "1")
    warm_up(folder)
    loaded = load(folder)
    rows = [(name, len(next(iter(inputs.values())))) for name, inputs in ran]
    assert rows == [
        ("stream_begin", 1),
        ("stream_step", 1),
        ("stream_join", 1),
        ("stream_keep", 2),
    ]
    assert loaded._streams is None  # no thread for models that nobody streams
    loaded.close()


def test_without_requests_to_warm_up_with_it_is_loaded(folder, ran):
    # tensorflow/serving: saved_model_warmup_util_test.cc:149 NoWarmupDataFile
    # tensorflow/serving: saved_model_warmup_util_test.cc:165 WarmupDataFileEmpty
    assert not (folder / FILE).exists()
    load(folder).close()
    write(folder)
    load(folder).close()
    assert ran == []


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (predict("rows", text=["poison"]), "poison"),
        (predict("zz", x=floats(1)), "there is no signature 'zz'"),
        (predict("", x=[1, 2]), "float"),
        (predict("two", x=floats(1)), "scale"),
        (predict("", zz=floats(1)), "zz"),
        (examples("regress_x_to_y"), "Input is empty."),
        (multi("zz"), "Requested signature not found in model graph: zz"),
        (multi("two"), "Expected one input Tensor."),
        (multi(), "Must specify at least one target to fetch"),
        (multi("regress_x_to_y", of=""), "Found ModelSpec with an empty model name."),
        (multi(*["regress_x_to_y"] * 2), "Duplicate evaluation of signature"),
        (b"\xff\xff\xff", ""),
    ],
)
def test_a_request_that_fails_fails_the_version(folder, record, message):
    # tensorflow/serving: saved_model_warmup_util_test.cc:281 RunFailure
    write(folder, predict("", x=floats(1)), record)
    with pytest.raises(StatusError) as error:
        load(folder)
    assert error.value.code is StatusCode.INVALID_ARGUMENT
    assert f"{folder / FILE}, request 2: " in error.value.message
    assert message in error.value.message


def test_a_file_that_is_cut_off_fails_the_version(folder):
    write(folder, predict("", x=floats(1)), predict("", x=floats(2)))
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-9])
    with pytest.raises(StatusError) as error:
        load(folder)
    assert str(folder / FILE) in error.value.message


@pytest.mark.parametrize(("count", "fails"), [(1000, False), (1001, True)])
def test_not_more_than_a_thousand(folder, ran, count, fails):
    # tensorflow/serving: saved_model_warmup_util_test.cc:215 TooManyWarmupRecords
    write(folder, *[predict("", x=floats(1))] * count)
    if fails:
        with pytest.raises(StatusError, match="request 1001: more than 1,000 requests"):
            load(folder)
    else:
        load(folder).close()
    assert len(ran) == 1000


def test_what_was_warmed_up_is_not_prepared_again(folder):
    write(folder, predict("", x=floats(1)))
    loaded = load(folder)
    prepared = set(loaded._servable._prepared)
    assert len(prepared) == 1
    submit(loaded, "serving_default", ["y"], x=floats(2)).result(PATIENCE)
    assert loaded._servable._prepared == prepared
    loaded.close()


def test_what_is_submitted_is_answered(loaded):
    futures = [submit(loaded, "serving_default", ["y"], x=floats(x)) for x in (1, 2)]
    found = [future.result(PATIENCE)["y"].tolist() for future in futures]
    assert found == [[2.5], [3.0]]


def test_only_the_outputs_that_are_asked_for(loaded):
    inputs = {"x": floats(2), "scale": np.array([3], np.int32)}
    answer = submit(loaded, "two", ["as_text"], **inputs).result(PATIENCE)
    assert {name: values.tolist() for name, values in answer.items()} == {
        "as_text": [b"3"]
    }


def test_those_that_meet_are_observed_as_one(loaded, timings):
    # tensorflow/serving: batching/batching_session_test.cc:701 processed_batch_size
    texts = [np.array([text], object) for text in (b"a", b"bb", b"ccc", b"dddd")]
    futures = [submit(loaded, "rows", ["length", "rows"], text=text) for text in texts]
    answers = [future.result(PATIENCE) for future in futures]
    assert [answer["length"].tolist() for answer in answers] == [[1], [2], [3], [4]]
    rows = [timing.rows for timing in timings]
    assert sum(rows) == 4
    counts = [count for count in rows for _ in range(count)]
    assert [answer["rows"].tolist() for answer in answers] == [[c] for c in counts]
    assert all(timing.waited >= 0 and timing.ran >= 0 for timing in timings)


def test_poison_among_those_that_meet(loaded):
    texts = [np.array([text], object) for text in (b"a", b"poison", b"c")]
    futures = [submit(loaded, "rows", ["length"], text=text) for text in texts]
    for future in (futures[0], futures[2]):
        assert future.result(PATIENCE)["length"].tolist() == [1]
    with pytest.raises(StatusError, match="poison"):
        futures[1].result(PATIENCE)


def test_a_large_request_is_as_wide_as_its_longest_text(loaded):
    texts = [b"a" * (count % 7) + b"b" for count in range(11)]
    future = submit(loaded, "codes", ["codes"], text=np.array(texts, object))
    expected = [[*text, *[-1] * (7 - len(text))] for text in texts]
    assert future.result(PATIENCE)["codes"].tolist() == expected


@pytest.mark.parametrize("count", [1, 3, 9])
def test_an_output_that_is_one_number(loaded, count):
    future = submit(loaded, "total", ["total"], x=floats(*range(count)))
    assert future.result(PATIENCE)["total"].tolist() == sum(range(count))


@pytest.mark.parametrize(
    ("x", "scale", "y"),
    [
        (floats(2, 4), np.array(3, np.int32), [9.0, 12.0]),
        (floats(2, 4), np.array([3], np.int32), [9.0, 12.0]),
        (np.float32(2), np.array([3, 1], np.int32), [9.0, 3.0]),
        (floats(), np.array([], np.int32), []),
    ],
)
def test_inputs_that_are_not_in_rows_are_run_alone(loaded, ran, x, scale, y):
    inputs = {"x": np.asarray(x), "scale": scale}
    futures = [submit(loaded, "two", ["y"], **inputs) for _ in range(2)]
    for future in futures:
        assert future.result(PATIENCE)["y"].tolist() == y
    assert len(ran) == 2


def test_closing_waits_for_its_users(half_plus_two):
    loaded = load(half_plus_two / "123")
    with loaded.used() as used:
        assert used is loaded
        thread = threading.Thread(target=loaded.close)
        thread.start()
        future = submit(loaded, "serving_default", ["y"], x=floats(1))
        assert future.result(PATIENCE)["y"].tolist() == [2.5]
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    with pytest.raises(StatusError, match="UNAVAILABLE"):
        submit(loaded, "serving_default", ["y"], x=floats(1))


def test_closing_does_not_wait_without_end(half_plus_two):
    loaded = load(half_plus_two / "123")
    with loaded.used():
        loaded.close(patience=0)
        with pytest.raises(StatusError, match="UNAVAILABLE"):
            submit(loaded, "serving_default", ["y"], x=floats(1))


def test_who_comes_after_the_end_is_told_so(half_plus_two):
    loaded = load(half_plus_two / "123")
    definition = loaded.signatures["serving_default"].definition
    fed, fetched = definition.inputs["x"].name, definition.outputs["y"].name
    with loaded.used():
        loaded.close(patience=0)
        with pytest.raises(StatusError):
            loaded.run_tensors((fed,), [floats(1)], (fetched,))


def test_threads_for_what_takes_long_yield_to_others(loaded):
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("threads have their priority on Linux")
    by_name = {}
    for task in tasks.iterdir():
        nice = os.getpriority(os.PRIO_PROCESS, int(task.name))
        by_name.setdefault((task / "comm").read_text().strip(), set()).add(nice)
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    assert by_name.pop("tf_Compute1") == {min(19, own + 5)}
    assert set().union(*by_name.values()) == {own}
