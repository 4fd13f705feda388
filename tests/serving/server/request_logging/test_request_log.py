"""Requests are written down when there is time for it, and dropped otherwise."""

import errno
import logging
import os
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.server.test_fault_tolerance import until
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.server.models.catalog import LogSettings
from transbeam.serving.server.monitoring.metrics import Metrics
from transbeam.serving.server.protocol.model_spec import model_spec, target_spec
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.request_logging import request_log
from transbeam.serving.server.request_logging.prediction_log import predict_entry
from transbeam.serving.server.request_logging.request_log import RequestLog
from transbeam.serving.server.request_logging.tfrecord_files import RecordFiles

DEMO = "demo"


def entry(number=0, floats=1):
    values = {"x": np.full(floats, number, np.float32)}
    asked = target_spec(ModelTarget(DEMO), "")
    return predict_entry(asked, values, (), model_spec(DEMO, 1, "serving_default"), {})


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def begin(tmp_path, metrics):
    """Begins logs of all models in a folder; closes them at the end."""
    begun = []

    def begin(share=1.0, wanted=(), **options):
        default = LogSettings(f"{tmp_path}/logs/", share)
        log = RequestLog(dict(wanted), default, metrics, **options)
        begun.append(log)
        return log

    yield begin
    for log in begun:
        log.close()


def counted(metrics, outcome, model=DEMO):
    labels = {"model_name": model, "outcome": outcome}
    name = "transbeam_logged_requests_total"
    return metrics.registry.get_sample_value(name, labels) or 0


def numbers(folder):
    """The contents of a log folder, in order."""
    found = []
    for path in sorted(folder.iterdir()):
        for record in tf.data.TFRecordDataset(str(path)):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            inputs = log.predict_log.request.inputs
            found.append(int(tf.make_ndarray(inputs["x"])[0]))
    return found


@pytest.fixture
def held(monkeypatch):
    """Writing waits until it is told to go on."""
    write, free, under_way = RecordFiles.write, threading.Event(), threading.Event()

    def when_free(self, record):
        under_way.set()
        assert free.wait(60)
        write(self, record)

    monkeypatch.setattr(RecordFiles, "write", when_free)
    yield free, under_way
    free.set()


def test_what_waits_is_written_before_the_end(begin, tmp_path, metrics, held):
    log = begin()
    for number in range(100):
        log.offer(DEMO, lambda number=number: entry(number))
    held[0].set()
    log.close()
    assert numbers(tmp_path / "logs") == list(range(100))
    assert (counted(metrics, "written"), counted(metrics, "dropped")) == (100, 0)
    assert [p for p in (tmp_path / "logs").iterdir() if p.suffix != ".tfrecord"] == []


def test_who_offers_does_not_wait_and_what_is_too_much_is_dropped(
    begin, tmp_path, metrics, held
):
    free, under_way = held
    log = begin(most_entries=3)
    log.offer(DEMO, lambda: entry(0))
    assert under_way.wait(60)
    # One is being written, three may wait.
    for number in range(1, 8):
        log.offer(DEMO, lambda number=number: entry(number))
    assert counted(metrics, "dropped") == 4
    free.set()
    log.close()
    assert numbers(tmp_path / "logs") == [0, 1, 2, 3]
    assert counted(metrics, "written") == 4


def test_large_requests_are_counted_by_their_bytes(
    begin, tmp_path, metrics, held, monkeypatch
):
    monkeypatch.setattr(request_log, "_MOST_BYTES", 1000)
    free, under_way = held
    log = begin()
    log.offer(DEMO, lambda: entry(0))
    assert under_way.wait(60)
    # One that is too large by itself may wait alone.
    for number, floats in enumerate([400, 1, 200, 1], start=1):
        log.offer(DEMO, lambda n=number, floats=floats: entry(n, floats))
    assert counted(metrics, "dropped") == 3
    free.set()
    until(lambda: counted(metrics, "written") == 2)
    # What is written counts no more.
    free.clear()
    for number, floats in enumerate([1, 100, 100], start=5):
        under_way.clear()
        log.offer(DEMO, lambda n=number, floats=floats: entry(n, floats))
        assert number > 5 or under_way.wait(60)
    free.set()
    log.close()
    assert numbers(tmp_path / "logs") == [0, 1, 5, 6, 7]
    assert counted(metrics, "dropped") == 3


def test_a_sample(begin, tmp_path, metrics):
    made = []
    log = begin(0.25, most_entries=1_000)
    for number in range(1000):
        log.offer(DEMO, lambda number=number: made.append(number) or entry(number))
    log.close()
    found = numbers(tmp_path / "logs")
    # Others are not even made. Six standard deviations.
    assert found == made
    assert abs(len(found) - 250) < 83
    assert counted(metrics, "written") == len(found)
    assert counted(metrics, "dropped") == 0


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 50)])
def test_none_and_all(begin, tmp_path, share, expected):
    log = begin(share)
    for number in range(50):
        log.offer(DEMO, lambda number=number: entry(number))
    log.close()
    assert len(numbers(tmp_path / "logs")) == expected


def test_models_that_say_it_themselves(begin, tmp_path):
    wanted = {
        "aside": LogSettings(f"{tmp_path}/aside/requests"),
        "never": LogSettings(f"{tmp_path}/aside/never", 0.0),
    }
    log = begin(wanted=wanted)
    assert log.settings("aside") == wanted["aside"]
    for number, name in enumerate(["aside", "never", "other"]):
        log.offer(name, lambda number=number: entry(number))
    log.close()
    assert numbers(tmp_path / "aside") == [0]
    assert numbers(tmp_path / "logs") == [2]
    [name] = [path.name for path in (tmp_path / "aside").iterdir()]
    assert name.startswith("requests-aside-")


def test_models_that_nobody_wants_to_be_written_down(tmp_path, metrics):
    log = RequestLog({"one": LogSettings(f"{tmp_path}/")}, None, metrics)
    assert log.settings("other") is None
    log.offer("other", lambda: pytest.fail("it is made"))
    log.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def told(caplog):
    """The levels of what was said."""
    caplog.set_level(logging.INFO, "transbeam.serve")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records]


def test_a_disk_that_refuses_is_told_of_once_and_asked_again(
    begin, tmp_path, metrics, told
):
    log = begin(retry_seconds=0.05)
    log.offer(DEMO, lambda: entry(0))
    until(lambda: counted(metrics, "written") == 1)
    shutil.rmtree(tmp_path / "logs")

    def offered_in_vain():
        log.offer(DEMO, lambda: entry(1))
        return counted(metrics, "dropped") >= 50

    until(offered_in_vain)
    [(level, message)] = told()
    assert level == "WARNING"
    assert message.startswith("demo: requests are not logged: ")
    assert "No such file" in message
    (tmp_path / "logs").mkdir()

    def offered():
        log.offer(DEMO, lambda: entry(2))
        return counted(metrics, "written") >= 3

    until(offered)
    assert told()[1:] == [("INFO", "demo: requests are logged again")]
    log.close()
    assert set(numbers(tmp_path / "logs")) <= {1, 2}


def test_while_a_disk_refuses_it_is_left_alone(begin, monkeypatch, metrics, told):
    tried = []

    def refuse(self, record):
        tried.append(record)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RecordFiles, "write", refuse)
    log = begin(retry_seconds=3600.0)
    for number in range(20):
        log.offer(DEMO, lambda number=number: entry(number))
    log.close()
    assert len(tried) == 1
    assert counted(metrics, "dropped") == 20
    assert [message for _, message in told()] == [
        "demo: requests are not logged: no space is left on the disk. Free "
        "some, or choose another folder"
    ]


def test_a_request_that_cannot_be_written_costs_no_other(
    begin, tmp_path, metrics, told
):
    def broken():
        raise RuntimeError("broken")

    def broken_later(log):
        raise RuntimeError("broken later")

    log = begin()
    log.offer(DEMO, broken)
    late = entry(1)
    object.__setattr__(late, "fill", broken_later)
    log.offer(DEMO, lambda: late)
    log.offer(DEMO, lambda: entry(2))
    log.close()
    assert numbers(tmp_path / "logs") == [2]
    assert counted(metrics, "dropped") == 2
    assert [level for level, _ in told()] == ["ERROR", "ERROR"]


def test_after_the_end_nothing_is_taken(begin, tmp_path, metrics):
    log = begin()
    log.close()
    log.offer(DEMO, lambda: entry(0))
    assert counted(metrics, "dropped") == 1
    assert numbers(tmp_path / "logs") == []


def test_the_end_does_not_wait_for_a_disk_that_hangs(begin, held):
    log = begin()
    log.offer(DEMO, lambda: entry(0))
    assert held[1].wait(60)
    log.close(patience=0.01)


@pytest.mark.parametrize("prefix", ["{file}/", "{file}/requests", "{file}/deep/er/"])
def test_a_folder_that_cannot_be_had_is_told_of_at_once(tmp_path, metrics, prefix):
    file = tmp_path / "file"
    file.write_text("in the way")
    settings = LogSettings(prefix.format(file=file))
    for wanted, default in (({}, settings), ({DEMO: settings}, None)):
        with pytest.raises(ArtifactError, match=r"in the way|is a file"):
            RequestLog(wanted, default, metrics)


def test_a_new_folder_is_for_its_owner_alone(begin, tmp_path):
    begin()
    assert os.stat(tmp_path / "logs").st_mode & 0o777 == 0o700
