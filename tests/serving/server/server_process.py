"""`transbeam serve` as users type it: as a process, or in a thread of the test's own.

A process takes seconds to begin. It is for what only one can show: signals and its end.
"""

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from transbeam.serving.__main__ import main
from transbeam.serving.server import run as module
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.connections.addresses import Addresses

ANY_PORTS = ["--port", "0", "--rest-port", "0"]


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """A process that serves, and the address of its REST API."""
    command = [sys.executable, "-m", "transbeam.serving", "serve", "--json", *arguments]
    with subprocess.Popen(
        [*command, *ANY_PORTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = ""
            while not said.endswith("}\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                said += line
            yield process, json.loads(said)["rest"]
        finally:
            process.kill()


@contextmanager
def commanded(*arguments: str) -> Iterator[Addresses]:
    """The same without a process, and so without signals."""
    opened: Future[Addresses] = Future()
    stop = threading.Event()

    def run(
        settings: ServerSettings,
        _listening: socket.socket,
        tell: Callable[[Addresses], None],
        ready: Callable[[], None],
    ) -> bool:
        with in_background(settings) as addresses:
            tell(addresses)
            ready()
            opened.set_result(addresses)
            stop.wait()
        return True

    def command() -> int:
        try:
            return main(["serve", *ANY_PORTS, *arguments])
        finally:
            if not opened.done():
                opened.set_exception(AssertionError("it ended without serving"))

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(module, "run", run)
        # What the command sets for its process goes back as it was.
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        log = logging.getLogger("transbeam.serve")
        patch.setattr(log, "handlers", [*log.handlers])
        patch.setattr(log, "propagate", log.propagate)
        level = log.level
        ended = pool.submit(command)
        try:
            yield opened.result()
        finally:
            stop.set()
            log.setLevel(level)
        assert ended.result() == 0
