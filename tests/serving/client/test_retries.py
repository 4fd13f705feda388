"""Temporary failures are retried with pauses until the timeout."""

from dataclasses import replace

import pytest

from transbeam.serving.client.interface import Connection, ServerError
from transbeam.serving.client.retries import with_retries

PATIENT = Connection(address="x", model="x", timeout=60.0)
BUSY = ServerError("RESOURCE_EXHAUSTED", "full", again=True)
WRONG = ServerError("INVALID_ARGUMENT", "wrong")


def attempts_of(*results):
    left = list(results)
    seen = []

    def attempt(seconds):
        seen.append(seconds)
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return attempt, seen


def test_it_goes_well_at_last():
    attempt, seen = attempts_of(BUSY, BUSY, "answer")
    pauses = []
    assert with_retries(attempt, PATIENT, pauses.append) == "answer"
    assert 0.025 <= pauses[0] <= 0.05 <= pauses[1] <= 0.1
    assert all(59 < seconds <= 60 for seconds in seen)


def test_pauses_double_up_to_two_seconds():
    attempt, _ = attempts_of(*[BUSY] * 12, "answer")
    pauses = []
    with_retries(attempt, PATIENT, pauses.append)
    limits = [min(0.05 * 2**n, 2.0) for n in range(12)]
    pairs = zip(pauses, limits, strict=True)
    assert all(limit / 2 <= pause <= limit for pause, limit in pairs)


def test_what_is_refused_for_good_is_not_tried_again():
    attempt, seen = attempts_of(WRONG, "answer")
    with pytest.raises(ServerError, match="INVALID_ARGUMENT: wrong"):
        with_retries(attempt, PATIENT, lambda pause: None)
    assert len(seen) == 1


def test_the_last_failure_is_told_when_time_is_up():
    attempt, seen = attempts_of(*[BUSY] * 1000)
    with pytest.raises(ServerError, match="RESOURCE_EXHAUSTED: full"):
        with_retries(attempt, replace(PATIENT, timeout=0.2))
    assert 1 < len(seen) < 10


def test_who_does_not_want_to_be_patient_is_told_at_once():
    attempt, seen = attempts_of(BUSY, "answer")
    with pytest.raises(ServerError, match="full"):
        with_retries(attempt, replace(PATIENT, retry=False), lambda pause: None)
    assert len(seen) == 1
