"""Requests in batches: who meets whom, what each gets back, and who is refused.

The model is a plain function. Where it matters what waits, the only thread is held in a
run of its own until the test lets it go, so nothing depends on who is faster.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.batching.batcher import Batcher

PATIENCE = 60
HOUR = 3_600_000_000
HOLD = ("hold",)
KIND = ("y",)


def double(kind, inputs, *how):
    if "poison" in inputs["x"]:
        raise ValueError("poison")
    return {"y": inputs["x"] + inputs["x"]}


def lengths(kind, inputs, *how):
    return {"y": np.array([len(text) for text in inputs["x"]])}


def codes(kind, inputs, *how):
    """As wide as the longest text of the batch."""
    widest = max(map(len, inputs["x"]))
    return {"y": np.array([list(text.ljust(widest)) for text in inputs["x"]])}


def total(kind, inputs, *how):
    return {"y": np.asarray(np.sum(inputs["x"])), "x": inputs["x"]}


def three(kind, inputs, *how):
    return {"y": np.array([7, 8, 9]), "x": inputs["x"]}


def numbers(*values):
    return {"x": np.array(values)}


def texts(*values):
    return {"x": np.array(values, object)}


def found(future: Future, name="y"):
    return future.result(PATIENCE)[name].tolist()


@contextmanager
def batching(run=double, **parameters):
    """A batcher, and the inputs of all that it ran."""
    seen = []

    def seeing(kind, inputs, *how):
        seen.append(inputs["x"].tolist())
        return run(kind, inputs, *how)

    batcher = Batcher(seeing, BatchingParameters(**parameters))
    try:
        yield batcher, seen
    finally:
        batcher.close()


@contextmanager
def held(run=double, **parameters):
    """The same, held until `go` is called."""
    busy, free = threading.Event(), threading.Event()

    def holding(kind, inputs, *how):
        if kind != HOLD:
            return run(kind, inputs, *how)
        busy.set()
        assert free.wait(PATIENCE)
        return {}

    with batching(holding, num_batch_threads=1, **parameters) as (batcher, seen):
        # Full, or it would wait for company where there is a timeout.
        rows = [0] * batcher._parameters.max_batch_size
        batcher.submit(HOLD, numbers(*rows))
        assert busy.wait(PATIENCE)
        del seen[0]
        try:
            yield batcher, seen, free.set
        finally:
            free.set()


def closing(batcher):
    """A thread that closes it, and has begun to."""
    thread = threading.Thread(target=batcher.close)
    thread.start()
    while True:
        try:
            batcher.submit_alone(KIND, numbers(0)).cancel()
        except StatusError as failure:
            if failure.code is StatusCode.UNAVAILABLE:
                return thread


@pytest.mark.parametrize(
    ("requests", "batches"),
    [
        ([[1], [2], [3], [4], [5]], [[1, 2, 3, 4], [5]]),
        ([[1, 2], [3, 4], [5, 6]], [[1, 2, 3, 4], [5, 6]]),
        ([[1, 2, 3], [4, 5], [6]], [[1, 2, 3], [4, 5, 6]]),
        ([[1, 2, 3, 4], [5]], [[1, 2, 3, 4], [5]]),
    ],
)
def test_what_waits_goes_together_as_far_as_it_fits(requests, batches):
    # tensorflow/serving: batching/batching_session_test.cc:291 Basic
    with held(max_batch_size=4) as (batcher, seen, go):
        futures = [batcher.submit(KIND, numbers(*rows)) for rows in requests]
        go()
        for rows, future in zip(requests, futures, strict=True):
            assert found(future) == [2 * row for row in rows]
    assert seen == batches


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ((KIND, numbers(1)), (KIND, numbers(2)), True),
        ((KIND, numbers(1)), (("y", "z"), numbers(2)), False),
        ((KIND, numbers(1)), (KIND, numbers(2.0)), False),
        ((KIND, numbers([1, 2])), (KIND, numbers([1, 2, 3])), False),
        ((KIND, texts("a")), (KIND, texts("a" * 64)), True),
        ((KIND, texts("a" * 64)), (KIND, texts("a" * 65)), False),
        ((KIND, texts("a" * 65)), (KIND, texts("a" * 90)), True),
        ((KIND, texts("a" * 90)), (KIND, texts("a" * 91)), False),
        ((KIND, texts("a", "a" * 129)), (KIND, texts("a" * 128)), False),
    ],
)
def test_only_those_that_are_alike_meet(first, second, meet):
    # tensorflow/serving: batching_session_test.cc:626 UnequalTensorShapesWithPaddingTur
    with held() as (batcher, seen, go):
        futures = [batcher.submit(*first), batcher.submit(*second)]
        go()
        for (_, inputs), future in zip((first, second), futures, strict=True):
            assert found(future) == double(KIND, inputs)["y"].tolist()
    assert len(seen) == (1 if meet else 2)


@given(
    requests=st.lists(
        st.lists(st.text("ab", max_size=140), min_size=1, max_size=11), max_size=9
    ),
    sizes=st.sampled_from([(), (4,), (1, 3, 4)]),
    enabled=st.booleans(),
)
def test_each_gets_what_it_would_get_alone(requests, sizes, enabled):
    chosen = {"max_batch_size": 4, "allowed_batch_sizes": sizes, "enabled": enabled}
    with batching(**chosen) as (batcher, _):
        futures = [batcher.submit(KIND, texts(*rows)) for rows in requests]
        for rows, future in zip(requests, futures, strict=True):
            assert found(future) == [row + row for row in rows]


def test_a_request_that_fails_fails_alone():
    with held() as (batcher, seen, go):
        futures = [batcher.submit(KIND, texts(x)) for x in ("a", "poison", "b")]
        go()
        assert [found(futures[0]), found(futures[2])] == [["aa"], ["bb"]]
        with pytest.raises(ValueError, match="poison"):
            found(futures[1])
    assert seen == [["a", "poison", "b"], ["a"], ["poison"], ["b"]]


def test_who_takes_too_long_does_not_take_its_neighbours_along():
    given = []

    def run(kind, inputs, seconds, takes_long):
        given.append(round(seconds))
        if 2 in inputs["x"]:
            raise StatusError(StatusCode.DEADLINE_EXCEEDED, "late")
        return double(kind, inputs)

    with held(run) as (batcher, seen, go):
        deadline = Deadline.after(1000)
        futures = [batcher.submit(KIND, numbers(x), deadline) for x in (1, 2, 3)]
        go()
        assert (found(futures[0]), found(futures[2])) == ([2], [6])
        with pytest.raises(StatusError, match="late"):
            found(futures[1])
    # Together, each without the others, and last the slow one with all that is left.
    assert seen == [[1, 2, 3], [1], [2], [3], [2]]
    assert given == [500, 500, 500, 500, 1000]


def test_what_nobody_waits_for_anymore_is_not_run():
    with held() as (batcher, seen, go):
        late = batcher.submit(KIND, texts("a"), Deadline(2.0, end=0.0))
        go()
        with pytest.raises(StatusError, match="no answer within 2 s") as error:
            found(late)
        assert error.value.code is StatusCode.DEADLINE_EXCEEDED
    assert seen == []


def test_a_large_request_is_cut_up_by_length_and_answered_in_order():
    # tensorflow/serving: batching/batching_session_test.cc:347 BatchingWithLargeBatch
    rows = ["a" * (70 * i % 11) for i in range(11)]
    with batching(lengths, max_batch_size=4) as (batcher, seen):
        assert found(batcher.submit(KIND, texts(*rows))) == [len(row) for row in rows]
    assert [len(batch) for batch in seen] == [4, 4, 3]
    batches = sorted(seen, key=lambda batch: len(batch[0]))
    assert [row for batch in batches for row in batch] == sorted(rows)


def test_a_large_request_with_poison_fails():
    with batching(max_batch_size=2) as (batcher, _):
        with pytest.raises(ValueError, match="poison"):
            found(batcher.submit(KIND, texts("a", "b", "poison", "c", "d")))
        assert found(batcher.submit(KIND, texts("a"))) == ["aa"]


@pytest.mark.parametrize("run", [codes, total, three])
def test_a_large_request_that_cannot_be_cut_up_is_run_at_once(run):
    inputs = texts("a", "bbb", "cc", "dddd", "e")
    with batching(run, max_batch_size=2) as (batcher, _):
        future = batcher.submit(KIND, inputs)
        expected = np.asarray(run(KIND, inputs)["y"]).tolist()
        assert np.asarray(future.result(PATIENCE)["y"]).tolist() == expected


def test_what_is_cancelled_is_never_run():
    with held(max_batch_size=2) as (batcher, seen, go):
        rows = [[1], [2], [3, 3], [4, 4, 4, 4, 4]]
        futures = [batcher.submit(KIND, numbers(*row)) for row in rows]
        assert all(future.cancel() for future in futures[1:])
        go()
        assert found(futures[0]) == [2]
        assert found(batcher.submit(KIND, numbers(6))) == [12]
    assert seen == [[1], [6]]


def test_a_full_queue_refuses_and_recovers():
    # tensorflow/serving: batching/README.md:115 max_enqueued_batches
    with held(max_batch_size=2, max_enqueued_batches=2) as (batcher, _, go):
        futures = [batcher.submit(KIND, numbers(x, x)) for x in (1, 2)]
        with pytest.raises(
            StatusError, match="currently 4 rows wait, of at most 4"
        ) as e:
            batcher.submit(KIND, numbers(3))
        assert (e.value.code, e.value.http) == (StatusCode.RESOURCE_EXHAUSTED, 429)
        go()
        assert [found(future) for future in futures] == [[2, 2], [4, 4]]
        assert found(batcher.submit(KIND, numbers(3))) == [6]


def test_who_is_gone_takes_no_room():
    with held(max_batch_size=2, max_enqueued_batches=2) as (batcher, seen, go):
        gone = [batcher.submit(KIND, numbers(x, x)) for x in (1, 2)]
        assert all(future.cancel() for future in gone)
        future = batcher.submit(KIND, numbers(3, 4))
        go()
        assert found(future) == [6, 8]
    assert seen == [[3, 4]]


def test_one_that_is_larger_than_the_queue_is_let_in_alone():
    rows = list(range(9))
    with held(max_batch_size=2, max_enqueued_batches=2) as (batcher, _, go):
        future = batcher.submit(KIND, numbers(*rows))
        with pytest.raises(StatusError, match="currently 9 rows wait") as error:
            batcher.submit(KIND, numbers(1, 2, 3))
        assert error.value.code is StatusCode.RESOURCE_EXHAUSTED
        go()
        assert found(future) == [2 * row for row in rows]
        assert found(batcher.submit(KIND, numbers(1, 2, 3))) == [2, 4, 6]


def test_parts_of_a_large_request_wait_in_turns_with_others():
    with held(max_batch_size=2, max_enqueued_batches=2) as (batcher, seen, go):
        large = batcher.submit(KIND, numbers(*[0] * 9))
        small = [batcher.submit(KIND, numbers(x, x)) for x in (1, 2)]
        go()
        assert [found(future) for future in small] == [[2, 2], [4, 4]]
        assert found(large) == [0] * 9
    # One part at a time waits, as there is one thread.
    assert seen == [[0, 0], [1, 1], [2, 2], *[[0, 0]] * 3, [0]]


def test_what_takes_long_leaves_a_thread_for_others():
    begun, go, aside = threading.Semaphore(0), threading.Event(), []

    def run(kind, inputs, seconds, takes_long):
        aside.append(takes_long)
        if takes_long:
            begun.release()
            assert go.wait(PATIENCE)
        return double(kind, inputs)

    with batching(run, max_batch_size=2, num_batch_threads=2) as (batcher, _):
        long = "a" * 2**13
        first = batcher.submit(KIND, texts(long, long + "b"))
        second = batcher.submit(KIND, texts(long + "b"))
        large = batcher.submit(KIND, texts("a", "b", "c"))
        assert begun.acquire(timeout=PATIENCE)
        assert found(batcher.submit(KIND, texts(long))) == [2 * long]
        assert not any(each.done() for each in (first, second, large))
        assert aside == [True, False]
        go.set()
        assert found(second) == [2 * (long + "b")]
        assert found(large) == ["aa", "bb", "cc"]
    assert aside == [True, False, True, True, True]


def test_the_parts_of_who_is_gone_are_never_run():
    with held(max_batch_size=2, max_enqueued_batches=2) as (batcher, seen, go):
        large = batcher.submit(KIND, numbers(*range(9)))
        assert large.cancel()
        go()
        assert found(batcher.submit(KIND, numbers(*range(3)))) == [0, 2, 4]
    assert seen == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("rows", "batch"),
    [([1], [1]), ([1, 2], [1, 2, 1, 1]), ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 1, 1, 1])],
)
def test_a_batch_is_filled_up_with_its_first_row(rows, batch):
    # tensorflow/serving: batching_session_test.cc:767 AllowedBatchSizesRequirePadding
    sizes = {"max_batch_size": 8, "allowed_batch_sizes": (1, 4, 8)}
    with held(**sizes) as (batcher, seen, go):
        futures = [batcher.submit(KIND, numbers(row)) for row in rows]
        go()
        assert [found(future) for future in futures] == [[2 * row] for row in rows]
    assert seen == [batch]


@pytest.mark.parametrize("sizes", [(), (4,)])
@pytest.mark.parametrize(("run", "y"), [(total, 5), (three, [7, 8, 9])])
def test_a_lone_request_gets_outputs_that_are_not_in_rows(run, y, sizes):
    with batching(run, max_batch_size=4, allowed_batch_sizes=sizes) as (batcher, _):
        future = batcher.submit(KIND, numbers(2, 3))
        assert (found(future), found(future, "x")) == (y, [2, 3])


@pytest.mark.parametrize("run", [total, three])
def test_outputs_that_are_not_in_rows_are_not_shared(run):
    with held(run) as (batcher, _, go):
        futures = [batcher.submit(KIND, numbers(x)) for x in (2, 3)]
        go()
        for x, future in zip((2, 3), futures, strict=True):
            assert found(future) == run(KIND, numbers(x))["y"].tolist()


def test_a_batch_waits_for_company_until_it_is_full():
    with batching(max_batch_size=3, batch_timeout_micros=HOUR) as (batcher, seen):
        futures = [batcher.submit(KIND, numbers(x)) for x in (1, 2, 3)]
        assert [found(future) for future in futures] == [[2], [4], [6]]
        assert seen == [[1, 2, 3]]
        left = batcher.submit(KIND, numbers(4))
    assert found(left) == [8]  # nobody waits for company at the end


def test_a_batch_does_not_wait_longer_than_it_should():
    # tensorflow/serving: batching/README.md:108 batch_timeout_micros
    with batching(batch_timeout_micros=1000) as (batcher, _):
        assert found(batcher.submit(KIND, numbers(1))) == [2]


@pytest.mark.parametrize("enabled", [True, False])
def test_who_goes_alone_does_not_wait_for_company(enabled):
    chosen = {"enabled": enabled, "batch_timeout_micros": HOUR}
    with batching(**chosen) as (batcher, _):
        future = batcher.submit_alone(KIND, numbers(1))
        assert future.result(10)["y"].tolist() == [2]


def test_without_batching_nothing_is_merged_cut_up_or_filled():
    # tensorflow/serving: g3doc/serving_config.md:248 Configuration
    chosen = {"max_batch_size": 4, "allowed_batch_sizes": (4,), "enabled": False}
    with held(**chosen) as (batcher, seen, go):
        rows = [[1], [2], [3, 4, 5, 6, 7]]
        futures = [batcher.submit(KIND, numbers(*row)) for row in rows]
        go()
        assert found(futures[2]) == [6, 8, 10, 12, 14]
    assert seen == rows


def test_closing_answers_what_waits_and_refuses_what_comes_after():
    with held() as (batcher, _, go):
        future = batcher.submit(KIND, numbers(1))
        thread = closing(batcher)
        with pytest.raises(StatusError, match="shutting down") as error:
            batcher.submit(KIND, numbers(2))
        assert (error.value.code, error.value.http) == (StatusCode.UNAVAILABLE, 503)
        go()
        assert found(future) == [2]
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_large_request_that_is_run_again_is_still_answered_at_the_end():
    with held(codes, max_batch_size=2) as (batcher, _, go):
        future = batcher.submit(KIND, texts("a", "bb", "ccc"))
        thread = closing(batcher)
        go()
        thread.join(PATIENCE)
        assert found(future) == [["a", " ", " "], ["b", "b", " "], ["c", "c", "c"]]


def test_a_large_request_that_is_run_again_is_not_refused_by_a_full_queue():
    others = []

    def run(kind, inputs, *how):
        if inputs["x"].tolist() == ["ccc"]:  # the last part: the queue is empty
            others.append(batcher.submit(KIND, texts("x", "y")))
        return codes(kind, inputs)

    sizes = {"max_batch_size": 2, "max_enqueued_batches": 1, "num_batch_threads": 1}
    with batching(run, **sizes) as (batcher, _):
        future = batcher.submit(KIND, texts("a", "bb", "ccc"))
        assert len(found(future)) == 3
        assert found(others[0]) == [["x"], ["y"]]


def test_many_threads_lose_nothing():
    start = threading.Barrier(8)

    def ask(number):
        start.wait(PATIENCE)
        values = [(number * 1000 + i, i % 7 + 1) for i in range(500)]
        futures = [batcher.submit(KIND, numbers(*[x] * n)) for x, n in values]
        assert [found(f) for f in futures] == [[2 * x] * n for x, n in values]

    parameters = {"max_batch_size": 5, "max_enqueued_batches": 10_000}
    with batching(**parameters) as (batcher, seen), ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert sum(map(len, seen)) == 8 * sum(i % 7 + 1 for i in range(500))
    assert max(map(len, seen)) <= 5


def test_a_batch_is_observed_before_its_answers_are_out():
    """Metrics that are asked for with an answer in hand have it counted."""
    was_out, submitted = [], threading.Event()

    def observe(timing):
        assert submitted.wait(PATIENCE)
        was_out.append(future.done())

    batcher = Batcher(double, BatchingParameters(), observe)
    future = batcher.submit(KIND, numbers(1))
    submitted.set()
    assert found(future) == [2]
    assert was_out == [False]
    batcher.close()
