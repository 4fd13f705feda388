"""Output of C++ is suppressed, and shown if nothing else explains a failure."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from transbeam.trainer.distribution.native_log import NativeLog
log = NativeLog()
os.write(2, b"E0000 00:00 ring.cc:1] connection lost\\n")
print("error: ours", file=sys.stderr)
"""
LOST = "E0000 00:00 ring.cc:1] connection lost\n"


def stderr_of(*ending: str, **environment: str) -> str:
    script = SCRIPT + "\n".join(ending)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    return done.stderr


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        ("log.drop()", "error: ours\n"),
        ("", f"error: ours\n{LOST}"),  # nobody said that it is not wanted
        ("os.abort()", f"error: ours\n{LOST}"),
        ("os.write(2, b'half a line'); log.drop()", "error: ours\n"),
    ],
)
def test_held_until_the_end_is_known(ending, shown) -> None:
    assert stderr_of(ending) == shown


def test_fatal_lines_are_shown_at_once() -> None:
    fatal = "F1127 18:58 client.h:80] Terminating\n"
    ending = f"os.write(2, {fatal.encode()!r}); import time; time.sleep(0.5)"
    told = stderr_of(ending, "print('later', file=sys.stderr)", "log.drop()")
    assert told == f"error: ours\n{LOST}{fatal}later\n"


def test_who_asks_for_all_lines_sees_them() -> None:
    assert stderr_of("log.drop()", TF_CPP_MIN_LOG_LEVEL="0") == f"{LOST}error: ours\n"
