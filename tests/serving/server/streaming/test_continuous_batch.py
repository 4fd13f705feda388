"""Texts side by side: who meets whom, what each is told, and who is hurt by whom.

The model is a plain function of numbers. Where it matters what waits, it is held before
a step until the test lets it go, so nothing depends on who is faster.
"""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
from grpc import StatusCode
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.server.streaming.gated_stream import (
    PATIENCE,
    Gate,
    Told,
    writing,
    written,
)
from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.streaming.continuous_batch import TextStream, run_once
from transbeam.serving.server.streaming.stream_requests import (
    BEGIN,
    JOIN,
    KEEP,
    STEP,
    StreamRequest,
)

PIECES = [b"a", b"b", b"ab", b"\xc3", b"\xa9", b"END", b" ", "é".encode()]
REFUSED, BROKEN = 1000, 2001
STATE = ("seed", "new", "most")


def piece(seed, number):
    return PIECES[(seed * 5 + number * number * 3 + number) % len(PIECES)]


def ends(seed, number):
    return (seed + 3 * number) % 17 == 0


class Model:
    """Writes what a row's own seed says, and uses up what it is given to step on."""

    def __init__(self):
        self.gate = Gate()

    def __call__(self, name, inputs):
        prefix = "" if name == BEGIN else "state_"
        self.gate(name, inputs[f"{prefix}seed"].tolist())
        return getattr(self, name)(inputs)

    def stream_begin(self, inputs):
        if REFUSED in inputs["seed"]:
            raise invalid("refused")
        seed, most = inputs["seed"], inputs["most"]
        return {**self.told(seed, np.ones_like(seed), most), "truncated": seed % 2 == 0}

    def stream_step(self, state):
        seed, new, most = (state[f"state_{name}"].copy() for name in STATE)
        for values in state.values():
            values[:] = -1
        if BROKEN in seed[new == 2]:
            raise ValueError("broken")
        return self.told(seed, new + 1, most)

    def stream_join(self, states):
        assert len(states) == 2 * len(STATE)
        return {
            f"state_{name}": np.concatenate(
                [states[f"state_{name}"], states[f"other_state_{name}"]]
            )
            for name in STATE
        }

    def stream_keep(self, inputs):
        rows = inputs.pop("rows")
        assert rows.dtype == np.int32
        assert rows.size
        return {name: values[rows] for name, values in inputs.items()}

    def told(self, seed, new, most):
        assert seed.min() >= 0
        rows = list(zip(seed.tolist(), new.tolist(), strict=True))
        texts = [
            b"".join(piece(s, number) for number in range(1, n + 1)) for s, n in rows
        ]
        finished = np.array([ends(s, n) for s, n in rows])
        return {
            "state_seed": seed,
            "state_new": new,
            "state_most": most,
            "token_id": seed * 100 + new,
            "num_tokens": new,
            "generated_text": np.array(texts, object),
            "ended": finished | (new >= most),
            "finished": finished,
        }


def asks(seed, most=6, stops=()):
    numbers = {"seed": seed, "most": most}
    inputs = {name: np.array([n], np.int32) for name, n in numbers.items()}
    return StreamRequest(inputs, tuple(stops))


def alone(seed, most=6, stops=()):
    """The expected text, whatever else is in the batch."""
    said = b""
    for number in range(1, most + 1):
        said += piece(seed, number)
        places = [said.find(stop) for stop in stops if stop in said]
        finished = bool(places) or ends(seed, number)
        if finished or number == most:
            text = said[: min(places, default=len(said))].decode("utf-8", "replace")
            return FinalEvent(text, number, finished, seed % 2 == 0)
    raise AssertionError


def check(told, *plan):
    whole = told.end()
    assert whole == alone(*plan)
    assert told.text == whole.generated_text
    tokens = [plan[0] * 100 + number for number in range(1, whole.num_tokens + 1)]
    assert [part.token_id for part in told.parts] == tokens


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def gate(model):
    return model.gate


@pytest.fixture
def submit():
    """Lets a text wait in a batch."""

    def submit(batch, *plan):
        told = Told(asks(*plan))
        batch.submit(told.stream)
        return told

    return submit


@dataclass(frozen=True)
class Plan:
    comes: int
    seed: int
    most: int
    stops: tuple[bytes, ...]
    leaves: int | None


PLANS = st.lists(
    st.builds(
        Plan,
        comes=st.integers(0, 20),
        seed=st.integers(0, 40) | st.just(REFUSED),
        most=st.integers(1, 9),
        stops=st.lists(
            st.sampled_from([b"ab", b"b", "é".encode(), b"END", b"aab"]), max_size=2
        ).map(tuple),
        leaves=st.none() | st.integers(1, 20),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=150)
@given(plans=PLANS, most_rows=st.integers(1, 4))
def test_texts_that_come_and_go_are_written_as_alone(plans, most_rows):
    model = Model()
    told = written(
        model,
        [(plan.comes, asks(plan.seed, plan.most, plan.stops)) for plan in plans],
        most_rows,
        [(plan.leaves, number) for number, plan in enumerate(plans) if plan.leaves],
    )
    for one, plan in zip(told, plans, strict=True):
        if plan.seed == REFUSED:
            assert [failure.message for failure in one.items] in ([], ["refused"])
            assert one.items or plan.leaves
        elif one.is_over:
            check(one, plan.seed, plan.most, plan.stops)
        else:
            assert plan.leaves
            whole = alone(plan.seed, plan.most, plan.stops)
            assert whole.generated_text.startswith(one.text)
    assert all(len(rows) <= most_rows for rows in model.gate.steps)


def test_who_comes_joins_at_the_next_token(model, gate, submit):
    gate.close()
    with writing(model) as batch:
        first = submit(batch, 3)
        gate.wait()
        second = submit(batch, 4)
        gate.let_until(lambda rows: len(rows) == 2)
        assert gate.calls == [
            (BEGIN, [3]),
            (STEP, [3]),
            (BEGIN, [4]),
            (JOIN, [3]),
            (STEP, [3, 4]),
        ]
        # Told at once, not when the step is over.
        second.wait_for_parts(1)
        assert len(first.parts) == 2
        gate.open()
        check(first, 3)
        check(second, 4)


def test_who_counts_is_told_of_each_token(model, gate, submit):
    gate.close()
    seen = []
    with writing(model, observe=seen.append) as batch:
        told = [submit(batch, 3)]
        gate.wait()
        told += [submit(batch, seed) for seed in (4, 6)]
        gate.let_until(lambda rows: len(rows) == 3)
        gate.open()
        tokens = sum(one.end().num_tokens for one in told)
    counted = [(one.tokens, len(one.waited)) for one in seen]
    assert counted[:4] == [(1, 1), (1, 0), (2, 2), (3, 0)]
    assert sum(one.tokens for one in seen) == tokens
    assert all(one.ran >= 0 for one in seen)
    # Those two came while a step was held.
    assert min(seen[2].waited) >= seen[2].ran


def test_those_who_wait_together_begin_together(model, gate, submit):
    gate.close()
    with writing(model) as batch:
        told = [submit(batch, 3)]
        gate.wait()
        told += [submit(batch, seed) for seed in (4, 6, 7)]
        gate.let_until(lambda rows: len(rows) == 4)
        assert gate.calls[-3:] == [
            (BEGIN, [4, 6, 7]),
            (JOIN, [3]),
            (STEP, [3, 4, 6, 7]),
        ]
        gate.open()
        for one, seed in zip(told, (3, 4, 6, 7), strict=True):
            check(one, seed)


def test_who_has_ended_leaves_before_the_next_token(model, gate, submit):
    gate.close()
    with writing(model) as batch:
        told = {}
        for seed, most in ((3, 9), (4, 2), (6, 9)):
            told[seed] = submit(batch, seed, most)
            gate.let_until(lambda rows, seed=seed: seed in rows)
        gate.open()
        for seed, most in ((3, 9), (4, 2), (6, 9)):
            check(told[seed], seed, most)
        # Who writes one token more than it began with is in one step.
        assert sum(4 in rows for rows in gate.steps) == 1
        assert (KEEP, [3, 4]) in gate.calls


def test_one_token_needs_no_step(model, gate, submit):
    with writing(model) as batch:
        check(submit(batch, 3, 1), 3, 1)
    assert gate.calls == [(BEGIN, [3])]


def test_no_more_rows_than_there_may_be(model, gate, submit):
    gate.close()
    plans = [(3, 9), (4, 2), (6, 3), (7, 3), (8, 3)]
    with writing(model, most_rows=2) as batch:
        told = []
        for plan in plans:
            told.append(submit(batch, *plan))
            gate.wait()
        gate.let_until(lambda rows: len(rows) == 2)
        assert not any(one.items for one in told[2:])
        gate.open()
        for one, plan in zip(told, plans, strict=True):
            check(one, *plan)
    assert max(map(len, gate.steps)) == 2
    # First come, first served.
    begun = [seed for name, rows in gate.calls if name == BEGIN for seed in rows]
    assert begun == [seed for seed, _ in plans]


@pytest.mark.parametrize("others", [[], [3], [3, 4]])
def test_who_cannot_be_served_fails_alone(model, gate, submit, others):
    gate.close()
    with writing(model, most_rows=8) as batch:
        running = submit(batch, 6, 9)
        gate.wait()
        seeds = [*others, REFUSED, *(seed + 10 for seed in others)]
        told = [submit(batch, seed) for seed in seeds]
        gate.open()
        for one, seed in zip(told, seeds, strict=True):
            if seed == REFUSED:
                assert one.failure().code is StatusCode.INVALID_ARGUMENT
                assert one.failure().message == "refused"
                assert one.parts == []
            else:
                check(one, seed)
        check(running, 6, 9)


def test_a_step_that_fails_fails_who_is_in_it_and_nobody_else(model, gate, submit):
    gate.close()
    with writing(model, most_rows=2) as batch:
        told = [submit(batch, BROKEN), submit(batch, 3)]
        gate.let_until(lambda rows: len(rows) == 2)
        after = submit(batch, 4)
        gate.open()
        for one in told:
            assert one.failure().code is StatusCode.INTERNAL
            assert one.failure().message == "ValueError: broken"
            assert one.parts
        check(after, 4)
        check(submit(batch, 6), 6)


@pytest.mark.parametrize("name", [JOIN, KEEP])
def test_after_any_failure_the_next_are_written(name, submit):
    gate, model = Gate(), Model()
    broken = threading.Event()
    broken.set()

    def run(called, inputs):
        gate(called, list(inputs))
        if called == name and broken.is_set():
            raise StatusError(StatusCode.DEADLINE_EXCEEDED, "slow")
        return model(called, inputs)

    gate.close()
    with writing(run) as batch:
        told = [submit(batch, 3, 9)]
        gate.wait()
        told.append(submit(batch, 4, 3))
        gate.open()
        for one in told:
            if name == JOIN or one is told[0]:
                assert one.failure().code is StatusCode.DEADLINE_EXCEEDED
            else:
                check(one, 4, 3)
        broken.clear()
        for seed in (6, 7):
            check(submit(batch, seed), seed)


def test_who_is_not_listened_to_anymore_makes_room(model, gate, submit):
    gate.close()
    with writing(model, most_rows=1) as batch:
        first = submit(batch, 3, 9)
        gate.wait()
        gone = submit(batch, 4)
        second = submit(batch, 6)
        before = list(first.items)
        first.cancel()
        gone.cancel()
        gate.open()
        check(second, 6)
        assert first.items == before
        assert gone.items == []
    assert gate.steps.count([3]) == 1
    assert (BEGIN, [4]) not in gate.calls


def test_a_row_is_not_kept_free_for_those_who_have_left(model, gate, submit):
    gate.close()
    with writing(model, most_rows=2) as batch:
        running = submit(batch, 3, 9)
        gate.wait()
        for seed in (4, 6, 7):
            submit(batch, seed).cancel()
        last = submit(batch, 8)
        gate.let_until(lambda rows: len(rows) == 2)
        assert gate.steps == [[3], [3, 8]]
        gate.open()
        check(running, 3, 9)
        check(last, 8)


def test_too_many_who_wait_are_refused(model, gate, submit):
    gate.close()
    with writing(model, most_rows=1, most_waiting=2) as batch:
        told = {3: submit(batch, 3)}
        gate.wait()
        told |= {seed: submit(batch, seed) for seed in (4, 6)}
        with pytest.raises(StatusError) as caught:
            submit(batch, 7)
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        message = "2 texts wait to be written; expected at most 2. Try again later"
        assert caught.value.message == message
        # Who has gone away waits no more.
        told.pop(4).cancel()
        told[8] = submit(batch, 8)
        gate.open()
        for seed, one in told.items():
            check(one, seed)
        check(submit(batch, 7), 7)


def test_in_the_end_nobody_is_left_waiting(model, gate, submit):
    gate.close()
    with writing(model, most_rows=1) as batch:
        told = [submit(batch, 3)]
        gate.wait()
        gone = submit(batch, 4)
        gone.cancel()
        told.append(submit(batch, 6))
        closing = threading.Thread(target=batch.close)
        closing.start()
        assert refusal(lambda: submit(batch, 7)) is StatusCode.UNAVAILABLE
        gate.open()
        closing.join(PATIENCE)
        assert not closing.is_alive()
        for one in told:
            assert one.failure().code is StatusCode.UNAVAILABLE
        assert gone.items == []
        batch.close()


def refusal(submit):
    """With what code texts are refused from some moment on."""
    while True:
        try:
            submit().cancel()
        except StatusError as failure:
            return failure.code


def test_without_texts_it_ends_at_once(model):
    with writing(model):
        pass
    assert model.gate.calls == []


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_listener_that_breaks_hurts_nobody(model, gate, submit, fails_at):
    heard = []

    def deliver(item):
        heard.append(item)
        if len(heard) >= fails_at:
            raise ValueError("deaf")

    gate.close()
    with writing(model) as batch:
        good = submit(batch, 3, 9)
        gate.wait()
        batch.submit(TextStream(asks(4, 9), deliver))
        later = submit(batch, 6, 9)
        gate.open()
        check(good, 3, 9)
        check(later, 6, 9)
        check(submit(batch, 7), 7)
    assert len(heard) == fails_at
    assert all(isinstance(item, StreamPart) for item in heard)


def test_a_model_that_does_not_tell_enough_fails_its_texts(submit):
    model = Model()

    def run(name, inputs):
        told = model(name, inputs)
        del told["finished"]
        return told

    with writing(run) as batch:
        for seed in (3, 4):
            assert submit(batch, seed).failure().code is StatusCode.INTERNAL


def test_each_signature_is_run_once_to_warm_up(model, gate):
    run_once(model, model(BEGIN, asks(3).inputs))
    assert [name for name, _ in gate.calls] == [BEGIN, STEP, JOIN, KEEP]
