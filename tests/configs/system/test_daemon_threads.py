"""Work in threads that nobody waits for."""

import subprocess
import sys
import threading

import pytest

from transbeam.configs.system.daemon_threads import any_running, run_in_background

# A command that leaves such a thread behind, which would never end.
LEAVING = """
import sys, threading
from transbeam.configs.cli.arguments import run_main
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.system.daemon_threads import run_in_background
def command(argv):
    run_in_background(threading.Event().wait, "one that hangs")
    print("said")
    if "fail" in argv:
        raise ConfigError("told")
    return 7
sys.exit(run_main(command))
"""


def test_its_end_is_told():
    assert run_in_background(lambda: 6 * 7, "a sum").result(10) == 42
    with pytest.raises(ZeroDivisionError):
        run_in_background(lambda: 1 // 0, "a mistake").result(10)


def test_who_no_longer_waits_leaves_it_alone():
    let = threading.Event()
    found = run_in_background(lambda: let.wait(60), "some work")
    assert any_running()
    assert not found.cancel()
    let.set()
    assert found.result(10)


@pytest.mark.parametrize(
    ("arguments", "code", "error"), [([], 7, ""), (["fail"], 2, "told")]
)
def test_a_process_ends_beside_it(arguments, code, error):
    ended = subprocess.run(
        [sys.executable, "-c", LEAVING, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "said\n")
    assert error in ended.stderr
    assert "Traceback" not in ended.stderr
