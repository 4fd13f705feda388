"""The versions of a model: which are loaded, which answer, and when each is let go.

What is loaded is a stand-in that counts its users, as the real one does.
"""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.models import versions
from transbeam.serving.server.models.versions import Model, Policy, State

PATIENCE = 60


class StandIn:
    """A loaded version, without TensorFlow."""

    def __init__(self, folder):
        self.folder = folder
        self.closed = threading.Event()
        self._users = 0
        self._changed = threading.Condition()

    @contextmanager
    def used(self):
        with self._changed:
            self._users += 1
        try:
            yield self
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self):
        with self._changed:
            assert self._changed.wait_for(lambda: not self._users, PATIENCE)
        self.closed.set()


class Loads:
    """Loads folders; a version may be broken."""

    def __init__(self):
        self.loaded = []
        self.broken = {}

    def __call__(self, folder):
        self.loaded.append(folder.name)
        if error := self.broken.get(int(folder.name)):
            raise error
        return StandIn(folder)


def write(folder, *names):
    for name in names:
        (folder / str(name)).mkdir(parents=True, exist_ok=True)
        (folder / str(name) / "saved_model.pb").write_bytes(b"")


def remove(folder, *names):
    for name in names:
        (folder / str(name) / "saved_model.pb").unlink()
        (folder / str(name)).rmdir()


def poll(model):
    """Looks, and waits until what is let go is gone."""
    model.poll()
    for thread in threading.enumerate():
        if thread.name.startswith("unload-"):
            thread.join(PATIENCE)
            assert not thread.is_alive()


def states(model):
    return [(version.number, version.state) for version in model.states()]


def answering(model, number=None):
    with model.use(number) as (found, loaded):
        assert not loaded.closed.is_set()
        return found


@pytest.fixture(autouse=True)
def no_tidying(monkeypatch):
    """In a process of many tests there is much that a collector has to look at."""
    monkeypatch.setattr(versions, "give_back_memory", lambda: None)


@pytest.fixture
def loads():
    return Loads()


@pytest.fixture
def model(tmp_path, loads):
    model = Model("m", tmp_path / "m", Policy(), loads)
    yield model
    model.close()


def test_a_new_version_takes_over_when_it_is_loaded(tmp_path):
    # tensorflow/serving: core/availability_preserving_policy_test.cc:29 LoadsNewAspired
    # tensorflow/serving: server_core_test.cc:81 CreateWaitsTillModelsAvailable
    begun, free = threading.Event(), threading.Event()

    def load(folder):
        if folder.name == "2":
            begun.set()
            assert free.wait(PATIENCE)
        return StandIn(folder)

    write(tmp_path, 1)
    model = Model("m", tmp_path, Policy(), load)
    poll(model)
    write(tmp_path, 2)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(poll, model)
        assert begun.wait(PATIENCE)
        assert states(model) == [(2, State.LOADING), (1, State.AVAILABLE)]
        assert answering(model) == 1
        free.set()
        looking.result(PATIENCE)
    assert answering(model) == 2
    assert states(model) == [(2, State.AVAILABLE), (1, State.END)]


def test_an_old_version_is_let_go_after_its_last_user(model):
    # tensorflow/serving: availability_preserving_policy_test.cc:116 UnloadIfOtherReadyE
    write(model.folder, 1)
    poll(model)
    with model.use() as (number, loaded):
        write(model.folder, 2)
        model.poll()
        assert (number, answering(model)) == (1, 2)
        assert states(model)[1] == (1, State.UNLOADING)
        assert not loaded.closed.is_set()
        with pytest.raises(StatusError):
            answering(model, 1)
    assert loaded.closed.wait(PATIENCE)


def test_a_version_that_fails_leaves_the_old_one(model, loads):
    write(model.folder, 1)
    poll(model)
    loads.broken[2] = invalid("it is damaged")
    write(model.folder, 2)
    poll(model)
    assert (model.available(), answering(model)) == ([1], 1)
    failed = model.states()[0]
    assert (failed.number, failed.state) == (2, State.END)
    assert failed.failure.message == "it is damaged"
    poll(model)
    assert loads.loaded == ["1", "2"]


@pytest.mark.parametrize("error", [invalid("damaged"), RuntimeError("unexpected")])
def test_a_version_that_failed_is_tried_again_when_it_is_mended(model, loads, error):
    loads.broken[1] = error
    write(model.folder, 1)
    with suppress(RuntimeError):
        poll(model)
    assert states(model) == [(1, State.END)]
    loads.broken.clear()
    os.utime(model.folder / "1/saved_model.pb", (2e9, 2e9))
    poll(model)
    assert (answering(model), model.states()[0].failure) == (1, None)


def test_a_version_that_failed_is_tried_five_times_more(model, loads, monkeypatch):
    # tensorflow/serving: model_servers/main.cc:163 max_num_load_retries
    monkeypatch.setattr(versions, "_RETRY_SECONDS", 0.0)
    loads.broken[1] = invalid("damaged")
    write(model.folder, 1)
    for _ in range(9):
        poll(model)
    assert len(loads.loaded) == 6


def test_a_version_that_failed_answers_when_a_later_attempt_goes_well(
    model, loads, monkeypatch
):
    monkeypatch.setattr(versions, "_RETRY_SECONDS", 0.0)
    loads.broken[1] = invalid("damaged")
    write(model.folder, 1)
    poll(model)
    loads.broken.clear()
    poll(model)
    assert answering(model) == 1


def test_a_minute_lies_between_two_attempts(model, loads, monkeypatch):
    # tensorflow/serving: model_servers/main.cc:168 load_retry_interval_micros
    clock = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(versions, "time", clock)
    loads.broken[1] = invalid("damaged")
    write(model.folder, 1)
    attempts = []
    for clock.now in (0.0, 59.9, 60.0, 119.9, 120.0):
        poll(model)
        attempts.append(len(loads.loaded))
    assert attempts == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("names", "number"), [(["007"], 7), (["7"], 7), (["0"], 0), (["9", "10"], 10)]
)
def test_names_that_are_versions(model, names, number):
    # tensorflow/serving: file_system_storage_path_source_test.cc:320 SpecificVersionsLe
    # tensorflow/serving: file_system_storage_path_source_test.cc:681 ParseTimestampedVe
    write(model.folder, *names)
    poll(model)
    assert answering(model) == number


@pytest.mark.parametrize(
    "name", ["a", "1a", "-1", "1.5", "²", "٣", "1_0", ".1", str(2**63), "9" * 30]
)
def test_names_that_are_no_versions(model, name):
    write(model.folder, name, 1)
    (model.folder / "5").write_bytes(b"")
    poll(model)
    assert states(model) == [(1, State.AVAILABLE)]


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (Policy(), [10]),
        (Policy(latest=2), [10, 3]),
        (Policy(latest=9), [10, 3, 2, 1]),
        (Policy(latest=None), [10, 3, 2, 1]),
        (Policy(specific=frozenset([1, 3])), [3, 1]),
        (Policy(specific=frozenset([2, 99])), [2]),
    ],
)
def test_policies(model, policy, chosen):
    # tensorflow/serving: file_system_storage_path_source_test.cc:229 NLatestVersions
    # tensorflow/serving: file_system_storage_path_source_test.cc:274 SpecificVersions
    model.policy = policy
    write(model.folder, 1, 2, 3, 10)
    poll(model)
    assert model.available() == chosen
    assert [number for number, _ in states(model)] == chosen
    assert answering(model) == max(chosen)
    for number in chosen:
        assert answering(model, number) == number


def test_a_version_that_is_wanted_again_is_loaded_again(model):
    write(model.folder, 1, 2)
    for policy, chosen in ((Policy(specific=frozenset([1])), [1]), (Policy(), [2])) * 2:
        model.policy = policy
        poll(model)
        assert model.available() == chosen


def test_when_the_folder_vanishes_what_answers_answers_on(model, caplog):
    # tensorflow/serving: file_system_storage_path_source_test.cc:828 LastVersionNotRemo
    write(model.folder, 1)
    poll(model)
    remove(model.folder, 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            poll(model)
        model.folder.rmdir()
        poll(model)
    assert answering(model) == 1
    (record,) = caplog.records
    assert "Version 1 answers on" in record.message


def test_when_a_version_is_removed_the_one_that_is_left_takes_over(model):
    # tensorflow/serving: file_system_storage_path_source_test.cc:717 ServableVersionDir
    write(model.folder, 1, 2)
    poll(model)
    remove(model.folder, 2)
    poll(model)
    assert states(model) == [(2, State.END), (1, State.AVAILABLE)]


@pytest.mark.parametrize(
    ("number", "asked"), [(None, "Latest(m)"), (99, "Specific(m, 99)")]
)
@pytest.mark.parametrize("there", [[], [1]])
def test_what_does_not_answer_is_not_found(model, number, asked, there):
    write(model.folder, *there)
    poll(model)
    if there and number is None:
        assert answering(model) == 1
        return
    with pytest.raises(StatusError) as error:
        answering(model, number)
    assert error.value.message == f"Servable not found for request: {asked}"
    assert (error.value.code, error.value.http) == (StatusCode.NOT_FOUND, 404)


def test_versions_that_ended_long_ago_are_forgotten(model):
    for number in range(1, 31):
        write(model.folder, number)
        poll(model)
        if number > 1:
            remove(model.folder, number - 1)
    poll(model)
    numbers = [number for number, _ in states(model)]
    assert numbers == list(range(30, 13, -1))


def test_nobody_is_handed_a_closed_version(model):
    write(model.folder, 1)
    poll(model)
    done = threading.Event()

    def ask():
        before = 0
        while not done.is_set():
            with model.use() as (number, loaded):
                assert number >= before
                assert loaded.folder.name == str(number)
                assert not loaded.closed.is_set()
            before = number
        return before

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            for number in range(2, 52):
                write(model.folder, number)
                model.poll()
        finally:
            done.set()
        assert all(future.result(PATIENCE) for future in asking)
    poll(model)
    assert model.available() == [51]
