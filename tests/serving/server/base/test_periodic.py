"""A thread that does something again and again."""

import logging
import threading
import time

from transbeam.serving.server.base.periodic import Repeated


def test_it_goes_on_after_a_bug_and_says_it(caplog):
    caplog.set_level(logging.ERROR, "transbeam.serve")
    times, three = [], threading.Event()

    def work():
        times.append(1)
        if len(times) == 1:
            raise RuntimeError("of ours")
        if len(times) == 3:
            three.set()

    repeated = Repeated(work, 0.01, "looks")
    repeated.start()
    assert three.wait(10)
    repeated.close()
    seen = len(times)
    time.sleep(0.1)
    assert len(times) == seen
    (record,) = caplog.records
    assert record.getMessage() == "looks: failed, and will be tried again"
    assert "RuntimeError: of ours" in caplog.text


def test_what_is_being_done_is_done_to_its_end():
    begun, ended = threading.Event(), []

    def work():
        begun.set()
        time.sleep(0.1)
        ended.append(1)

    repeated = Repeated(work, 0.01, "work")
    repeated.start()
    assert begun.wait(10)
    repeated.close()
    assert ended == [1]


def test_what_never_began_is_closed_too():
    Repeated(time.sleep, 1, "nothing").close()
