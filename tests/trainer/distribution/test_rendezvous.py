"""Workers meet over sockets of their own: who is missing is named, who differs, too."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

import pytest

from tests.docs import ROOT
from tests.e2e.test_workers import free_ports
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.trainer.distribution import rendezvous, rendezvous_sides
from transbeam.trainer.distribution.connection import JsonConnection, listen
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.rendezvous import LostWorkerError, SeveralRendezvous
from transbeam.trainer.distribution.rendezvous_sides import (
    ChiefRendezvous,
    MemberRendezvous,
)

SOON = 10.0  # what is to happen at once has happened by then


class Workers:
    """The places of workers on this machine, and those that are there."""

    def __init__(self, count: int, *, are_listening: bool):
        ports = free_ports(count if are_listening else 1)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        addresses += [""] * (count - len(addresses))
        self.addresses = tuple(addresses)
        self.count = count
        self.said: list[str] = []
        self.opened = ExitStack()

    def place(self, number: int) -> ProcessInfo:
        return ProcessInfo(number, self.count, self.addresses, self.addresses[number])

    def open(self, number: int, seconds: float = SOON) -> SeveralRendezvous:
        side = ChiefRendezvous if number == 0 else MemberRendezvous
        opened = side(self.place(number), self.said.append, seconds)
        self.opened.callback(opened.close)
        return opened

    def open_all(self) -> list[SeveralRendezvous]:
        return [self.open(number) for number in range(self.count)]


@pytest.fixture(params=[True, False], ids=["tensorflow", "jax"])
def workers(request) -> Workers:
    """Three; all of them have addresses, or the chief alone."""
    workers = Workers(3, are_listening=request.param)
    with workers.opened:
        yield workers


def at_once(*calls: Callable) -> list[Future]:
    """Each in a thread; returns when all have ended."""
    futures = [run_in_background(call, "a worker") for call in calls]
    for future in futures:
        future.exception(SOON)
    return futures


def test_each_has_what_all_say_in_their_order(workers) -> None:
    opened = workers.open_all()
    for facts in ("abc", "def"):
        found = at_once(
            *[
                lambda r=r, x=x: r.exchange(x)
                for r, x in zip(opened, facts, strict=True)
            ]
        )
        assert [future.result() for future in found] == [list(facts)] * 3


def test_all_name_what_differs_and_both_values(workers) -> None:
    opened = workers.open_all()
    steps = (12, 12, 13)
    found = at_once(
        *[
            lambda r=r, x=x: r.assert_equal({"seed": 1, "training.steps": x})
            for r, x in zip(opened, steps, strict=True)
        ]
    )
    for future in found:
        with pytest.raises(
            ArtifactError, match=r"training\.steps: 12 at worker 0 and 1 more, 13 at w"
        ) as told:
            future.result()
        assert "seed" not in str(told.value)


def exchange(worker: SeveralRendezvous) -> None:
    """The first exchange, of whose failure the others are told."""
    try:
        worker.exchange(0)
    except LostWorkerError as error:
        worker.close(error)
        raise


def test_who_does_not_come_is_named_by_all_others(workers, monkeypatch) -> None:
    monkeypatch.setattr(rendezvous, "_NOTICE_AFTER", 0.4)
    chief, other = workers.open(0, seconds=0.8), workers.open(1)
    found = at_once(lambda: exchange(chief), lambda: exchange(other))
    address = workers.addresses[2] or workers.addresses[0]
    for future in found:
        with pytest.raises(LostWorkerError, match=f"0.8 s for worker 2 at {address}"):
            future.result()
    assert any(f"waiting for worker 2 at {address}" in said for said in workers.said)
    assert not any("worker 1 at" in said for said in workers.said)


def test_a_name_that_does_not_resolve_is_named(workers, monkeypatch) -> None:
    def dial(address: str) -> socket.socket:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(rendezvous_sides, "dial", dial)
    other = workers.open(1, seconds=0.5)
    with pytest.raises(
        LostWorkerError, match=r"for worker 0 at 127.* \(Name or service not known\)"
    ):
        other.exchange(1)


def test_the_chief_waits_for_an_address_that_it_cannot_reach() -> None:
    """The worker itself is here; its backend would not be found."""
    workers = Workers(2, are_listening=True)
    with workers.opened:
        chief = workers.open(0, seconds=0.7)
        other = MemberRendezvous(
            ProcessInfo(1, 2, workers.addresses), workers.said.append, 9
        )
        workers.opened.callback(other.close)
        for future in at_once(lambda: exchange(chief), lambda: exchange(other)):
            with pytest.raises(
                LostWorkerError, match=r"worker 1 at .* \(Connection re"
            ):
                future.result()


def test_who_goes_and_comes_again_before_all_are_here_is_waited_for(workers) -> None:
    chief, other = workers.open(0), workers.open(1)
    begun = [
        run_in_background(lambda r=r: r.exchange(0), "one") for r in (chief, other)
    ]
    while chief.missing().keys() != {2}:
        time.sleep(0.01)
    other.close(KeyboardInterrupt())
    while chief.missing().keys() != {1, 2}:
        time.sleep(0.01)
    again, third = workers.open(1), workers.open(2)
    at_once(lambda: again.exchange(1), lambda: third.exchange(2))
    assert begun[0].result(SOON) == [0, 1, 2]


def test_strangers_at_the_port_are_no_workers(workers) -> None:
    opened = workers.open_all()
    found = run_in_background(lambda: opened[0].exchange(0), "the chief")
    port = int(workers.addresses[0].rpartition(":")[2])
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\xff\n",
        b'{"worker": "x"}\n',
        b"[]\n",
    ):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(said)
    at_once(*[lambda n=n: opened[n].exchange(n) for n in (1, 2)])
    assert found.result(SOON) == [0, 1, 2]


def test_workers_of_another_number_are_refused() -> None:
    workers = Workers(2, are_listening=False)
    with workers.opened:
        chief = workers.open(0)
        waiting = run_in_background(lambda: chief.exchange(0), "the chief")
        for number, count in ((1, 3), (2, 2)):
            other = MemberRendezvous(
                ProcessInfo(number, count, workers.addresses * 3),
                workers.said.append,
                SOON,
            )
            workers.opened.callback(other.close)
            with pytest.raises(
                LostWorkerError, match=r"2 at worker 0, 3 at|no worker 2"
            ):
                other.exchange(1)
        assert not waiting.done()  # the right one may still come
        at_once(lambda: workers.open(1).exchange(1))
        assert waiting.result(SOON) == [0, 1]


def test_of_two_with_one_number_the_first_ends() -> None:
    """Two shells with the same variables; on JAX no port is there to collide."""
    workers = Workers(2, are_listening=False)
    workers.count = 3
    workers.addresses += ("",)
    with workers.opened:
        chief, one = workers.open(0), workers.open(1)
        run_in_background(lambda: chief.exchange(0), "the chief")
        first = run_in_background(lambda: one.exchange(1), "a worker")
        while chief.missing().keys() != {2}:
            time.sleep(0.01)
        run_in_background(lambda: workers.open(1).exchange(1), "a worker")
        with pytest.raises(LostWorkerError, match="another process is worker 1 too"):
            first.result(SOON)


def test_an_error_of_one_is_told_by_all(workers) -> None:
    opened = workers.open_all()
    at_once(*[lambda r=r: r.exchange(0) for r in opened])
    opened[1].close(DataError("shard-0: cut off"))
    chief = at_once(lambda: opened[0].exchange(0))[0]
    with pytest.raises(LostWorkerError, match="worker 1 has ended: shard-0: cut off"):
        chief.result()
    opened[0].close(chief.exception())
    with pytest.raises(LostWorkerError, match="worker 1 has ended: shard-0: cut off"):
        opened[2].exchange(0)


def test_while_the_backend_starts_a_lost_worker_is_noticed(workers) -> None:
    opened = workers.open_all()
    at_once(*[lambda r=r: r.exchange(0) for r in opened])
    waiting = run_in_background(
        lambda: opened[0].run(lambda: time.sleep(SOON)), "the chief"
    )
    opened[2].close()
    with pytest.raises(LostWorkerError, match="worker 0: worker 2 is gone"):
        waiting.result(SOON / 2)


def test_the_backend_finds_its_port_free(workers) -> None:
    """While the connections of the rendezvous are still there."""
    opened = workers.open_all()
    at_once(*[lambda r=r: r.exchange(0) for r in opened])

    def start(address: str) -> str:
        if address:
            listen(address).close()
        return address

    found = at_once(
        *[lambda r=r: r.run(lambda: start(r.place.listens_at)) for r in opened]
    )
    assert [future.result() for future in found] == list(workers.addresses)


def test_a_taken_port_is_told_with_its_address() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        address = f"127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=f"{address}: .* another process has the"):
            ChiefRendezvous(ProcessInfo(0, 2, (address, ""), address), print)


def test_what_is_no_object_ends_a_connection() -> None:
    ours, theirs = socket.socketpair()
    here = JsonConnection(ours)
    theirs.sendall(b'{"a": 1}\n[2]\n')
    assert here.receive() == {"a": 1}
    assert here.receive() is None
    here.close()
    theirs.close()


TRAIN = (sys.executable, "-m", "transbeam.trainer", "train")
ALONE = {
    "tensorflow": {
        "TF_CONFIG": '{"cluster": {"worker": ["127.0.0.1:%d", "127.0.0.1:%d"]}, '
        '"task": {"type": "worker", "index": 0}}'
    },
    "jax": {
        "JAX_COORDINATOR_ADDRESS": "127.0.0.1:%d",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
    },
}


@pytest.mark.parametrize(
    ("backend", "number"), [("tensorflow", signal.SIGTERM), ("jax", signal.SIGINT)]
)
def test_who_waits_says_so_and_hears_signals(backend, number, tmp_path) -> None:
    """It does so before it imports anything heavy."""
    ports = free_ports(2)
    chosen = {
        name: value % tuple(ports[: value.count("%d")])
        for name, value in ALONE[backend].items()
    }
    waiting = subprocess.Popen(
        [*TRAIN, "configs/demo.yaml", "--quiet", "--run", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, **chosen},
        stderr=subprocess.PIPE,
        text=True,
        # Shells start what runs in the background with an interrupt ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    said = waiting.stderr.readline()
    missing = 1 if backend == "tensorflow" else 0
    assert f"waiting for worker {missing} at 127.0.0.1:{ports[missing]}" in said
    waiting.send_signal(number)
    _, told = waiting.communicate(timeout=30)
    assert waiting.returncode == 130, told
    assert "Traceback" not in told
