"""Loads ask what they say they ask, and waiting counts from when a request was due."""

import threading
import time

import pytest

from transbeam.serving.client.interface import ServerError
from transbeam.serving.loadtest.load_loops import Sample, closed_loop, open_loop
from transbeam.serving.loadtest.server_metrics import ServerCounts
from transbeam.serving.loadtest.summary import summarize, table


def test_each_client_asks_again_when_it_is_answered():
    together = []
    now = 0
    lock = threading.Lock()

    def ask(number):
        nonlocal now
        with lock:
            now += 1
            together.append(now)
        time.sleep(0.01)
        with lock:
            now -= 1

    samples = closed_loop(ask, 3, 0.2)
    assert max(together) == 3
    assert len(samples) == len(together) > 9
    assert all(sample.seconds >= 0.01 for sample in samples)
    assert [s.due for s in samples] == sorted(s.due for s in samples)


def test_clients_ask_different_questions():
    asked = []
    closed_loop(lambda number: asked.append(number) or time.sleep(0.01), 4, 0.2)
    assert sorted(asked) == sorted(set(asked))
    assert set(range(4)) <= set(asked)


def test_requests_arrive_at_their_rate_and_by_chance():
    first = open_loop(lambda number: None, 800.0, 0.25, seed=1)
    again = open_loop(lambda number: None, 800.0, 0.25, seed=1)
    other = open_loop(lambda number: None, 800.0, 0.25, seed=2)
    assert 150 < len(first) < 250
    assert [s.due for s in first] == [s.due for s in again]
    assert [s.due for s in first] != [s.due for s in other]


def test_a_server_that_stands_still_is_not_asked_less():
    standing = threading.Event()

    def ask(number):
        if number == 25:
            standing.set()
        assert standing.wait(60)

    samples = open_loop(ask, 100.0, 0.5)
    # Who came at the beginning waited until the 26th came.
    assert len(samples) > 26
    assert all(s.due + s.seconds >= samples[25].due for s in samples)
    assert samples[0].seconds > 0.1


@pytest.mark.parametrize("loop", [closed_loop, open_loop])
def test_errors_are_taken_down(loop):
    def ask(number):
        if number % 2:
            raise ServerError("RESOURCE_EXHAUSTED", "full", again=True)
        time.sleep(0.001)

    samples = loop(ask, 20, 0.3)
    assert {s.error for s in samples} == {"", "RESOURCE_EXHAUSTED"}


def test_sums_by_hand():
    samples = [Sample(0.0, n / 1000) for n in range(1, 101)]
    samples.append(Sample(0.0, 9.0, "UNAVAILABLE"))
    before = ServerCounts(batches=10, rows=20, queued=1.0, computed=2.0, memory=100e6)
    after = ServerCounts(batches=30, rows=100, queued=1.5, computed=4.0, memory=101e6)
    stage = summarize("8 clients", samples, 2.0, before, after)
    assert stage.asked == 101
    assert stage.errors == {"UNAVAILABLE": 1}
    assert stage.answers_per_second == 50.0
    assert stage.milliseconds["p50"] == pytest.approx(50.5)
    assert stage.milliseconds["p99"] == pytest.approx(99.01)
    assert (stage.rows_per_batch, stage.queue_ms, stage.compute_ms) == (
        4.0,
        25.0,
        100.0,
    )
    assert stage.memory_mb == (100.0, 101.0)
    header, row = table([stage]).splitlines()
    assert header.split()[:4] == ["load", "asked", "errors", "answers/s"]
    assert row.split() == [
        *("8", "clients", "101", "1", "50.0", "50.5", "90.1", "99.0", "99.9"),
        *("4.0", "25.0", "100.0", "100", "→", "101"),
    ]


def test_a_stage_without_an_answer():
    stage = summarize("1 clients", [Sample(0.0, 1.0, "UNAVAILABLE")], 1.0)
    assert stage.answers_per_second == 0
    assert stage.milliseconds["p50"] is None
    assert table([stage]).splitlines()[1].split()[-4:] == ["-"] * 4
