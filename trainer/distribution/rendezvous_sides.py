"""Rendezvous classes of the chief and the members, and the choice between them.

The chief accepts the connections of the other workers (members), and sends to each
member the values of all workers. This module imports no large library, as workers
connect before their backends are imported.
"""

import os
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.daemon_threads import BackgroundThread
from transbeam.configs.system.signal_handlers import handling
from transbeam.trainer.distribution.connection import JsonConnection, dial
from transbeam.trainer.distribution.process_info import ProcessInfo, find_rank
from transbeam.trainer.distribution.rendezvous import (
    SECONDS,
    LostWorkerError,
    Rendezvous,
    SeveralRendezvous,
)

_SECONDS_TO_GREET = 10.0
_SECONDS_BETWEEN = 0.5
_NOT_HERE = "something listens there, but has not come to worker 0"


class ChiefRendezvous(SeveralRendezvous):
    """The rendezvous of worker 0; see `SeveralRendezvous` for the arguments.

    A worker counts as present when it has connected to the chief and, if it has an
    address, the chief can connect to that address, because the backend must connect to
    it later.
    """

    def __init__(
        self, place: ProcessInfo, say: Callable[[str], None], seconds: float = SECONDS
    ):
        super().__init__(place, say, seconds)
        self._connections: dict[int, JsonConnection] = {}
        self._facts: dict[int, Any] = {}
        self._unreached: dict[int, str] = {}
        self._sent_at = 0.0
        self._acceptor: BackgroundThread | None = None

    def exchange(self, facts: Any) -> list[Any]:
        if self._acceptor is None:
            self._begin()
        self._facts[0] = facts
        self.wait(lambda: not self.missing())
        found = [self._facts[number] for number in range(self.place.count)]
        self._facts, self.all_are_met = {}, True
        self.broadcast({"all": found})
        return found

    def missing(self) -> Mapping[int, str]:
        return {
            number: self._why(number)
            for number in range(1, self.place.count)
            if number not in self._facts or number in self._unreached
        }

    def _why(self, number: int) -> str:
        is_here = number in self._connections or not self.place.addresses[number]
        return self._unreached.get(number, "" if is_here else _NOT_HERE)

    def tick(self) -> None:
        # A heartbeat: without messages the members would take the chief for gone.
        if time.monotonic() > self._sent_at + 1:
            self._sent_at = time.monotonic()
            self.broadcast({"missing": list(self.missing().items())})

    def broadcast(self, message: Mapping[str, Any]) -> None:
        for connection in self._connections.values():
            connection.send(message)

    def leave_port(self) -> None:
        super().leave_port()
        if self._acceptor is not None:
            self._acceptor.join()  # the port is in use until its accept() returns

    def close(self, error: BaseException | None = None) -> None:
        super().close(error)
        for connection in self._connections.values():
            connection.close()

    def _begin(self) -> None:
        self._acceptor = BackgroundThread(self._accept, "rendezvous")
        self._acceptor.start()
        for number, address in enumerate(self.place.addresses):
            if number and address:
                self._unreached[number] = ""
                BackgroundThread(lambda n=number: self._probe(n), "rendezvous").start()

    # ---------------------------------------------------------- in their threads

    def _accept(self) -> None:
        listener = self.listener
        if listener is None:
            return
        listener.settimeout(_SECONDS_BETWEEN / 2)  # to notice when it is closed
        while True:
            try:
                connected, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            connection = JsonConnection(connected, _SECONDS_TO_GREET)
            BackgroundThread(lambda c=connection: self._read(c), "rendezvous").start()

    def _read(self, connection: JsonConnection) -> None:
        hello = connection.receive()
        if hello is None or not isinstance(hello.get("worker"), int):
            connection.close()  # not a worker
            return
        connection.wait_for(None)
        number = hello["worker"]
        self.post(self._welcome, number, connection, hello)
        while (message := connection.receive()) is not None:
            self.post(self._take, number, connection, message)
        connection.close()
        self.post(self._lose, number, connection)

    def _probe(self, number: int) -> None:
        while not self.has_ended:
            try:
                dial(self.place.addresses[number]).close()
            except OSError as error:
                why = error.strerror or str(error)
                self.post(self._unreached.update, {number: why})
                time.sleep(_SECONDS_BETWEEN)
            else:
                self.post(self._unreached.pop, number)
                return

    # ------------------------------------------------ in the thread that waits

    def _welcome(
        self, number: int, connection: JsonConnection, hello: Mapping[str, Any]
    ) -> None:
        count = hello.get("of")
        refused = ""
        if count != self.place.count:
            refused = (
                f"the workers differ in their number: {self.place.count} at worker 0, "
                f"{count} at worker {number}"
            )
        elif self.all_are_met or not 0 < number < self.place.count:
            refused = f"worker 0 waits for no worker {number}: all of its own are here"
        if refused:
            self.say(refused)
            connection.send({"ended": refused})
            connection.close()
            return
        if (other := self._connections.get(number)) is not None:
            # If the worker lost its network and reconnected, nobody receives this.
            other.send({"ended": f"another process is worker {number} too"})
            other.close()
        self._connections[number] = connection
        self._facts[number] = hello.get("facts")

    def _take(
        self, number: int, connection: JsonConnection, message: Mapping[str, Any]
    ) -> None:
        if self._connections.get(number) is not connection:
            return
        if "facts" in message:
            self._facts[number] = message["facts"]
        if "ended" in message and self.all_are_met:
            raise LostWorkerError(message["ended"])

    def _lose(self, number: int, connection: JsonConnection) -> None:
        if self._connections.get(number) is not connection:
            return
        if self.all_are_met:
            raise LostWorkerError(
                f"worker 0: worker {number} is gone, before the training began. Its "
                "own messages say why. Start all workers again"
            )
        del self._connections[number]
        self._facts.pop(number, None)


_SECONDS_TO_ANSWER = 10.0
_NO_ANSWER = "what listens there does not answer"


class MemberRendezvous(SeveralRendezvous):
    """The rendezvous of a worker other than the chief; see `SeveralRendezvous`."""

    def __init__(
        self, place: ProcessInfo, say: Callable[[str], None], seconds: float = SECONDS
    ):
        super().__init__(place, say, seconds)
        self._chief: JsonConnection | None = None
        self._missing: dict[int, str] = {0: ""}
        self._facts: Any = None
        self._found: list[Any] | None = None
        self._connector: BackgroundThread | None = None

    def exchange(self, facts: Any) -> list[Any]:
        self._facts = facts
        if self._connector is None:
            self._connector = BackgroundThread(self._connect, "rendezvous")
            self._connector.start()
        else:
            self.broadcast({"facts": facts})
        self.wait(lambda: self._found is not None)
        found, self._found = self._found or [], None
        return found

    def missing(self) -> Mapping[int, str]:
        return self._missing

    def broadcast(self, message: Mapping[str, Any]) -> None:
        if self._chief is not None:
            self._chief.send(message)

    def close(self, error: BaseException | None = None) -> None:
        super().close(error)
        if self._chief is not None:
            self._chief.close()

    # ----------------------------------------------------------- in its thread

    def _connect(self) -> None:
        while not (self.has_ended or self.all_are_met):
            try:
                connected = dial(self.place.addresses[0])
            except OSError as error:
                self.post(self._miss_chief, error.strerror or str(error))
            else:
                self._read(JsonConnection(connected, _SECONDS_TO_ANSWER))
            time.sleep(_SECONDS_BETWEEN)

    def _read(self, connection: JsonConnection) -> None:
        self.post(self._greet, connection)
        while (message := connection.receive()) is not None:
            if "all" in message:
                connection.wait_for(None)
            self.post(self._take, message)
        connection.close()
        self.post(self._lose)

    # ------------------------------------------------ in the thread that waits

    def _greet(self, connection: JsonConnection) -> None:
        self._chief, self._missing = connection, {0: _NO_ANSWER}
        hello = {"worker": self.place.number, "of": self.place.count}
        connection.send({**hello, "facts": self._facts})

    def _take(self, message: Mapping[str, Any]) -> None:
        if "ended" in message:
            raise LostWorkerError(message["ended"])
        if "missing" in message:
            self._missing = dict(message["missing"])
        if "all" in message:
            self.all_are_met, self._missing = True, {}
            self._found = message["all"]

    def _miss_chief(self, why: str) -> None:
        self._missing = {0: why}

    def _lose(self) -> None:
        if self.all_are_met:
            raise LostWorkerError(
                f"worker {self.place.number}: worker 0 is gone, before the training "
                "began. Its own messages say why. Start all workers again"
            )
        self._chief = None
        if self._missing != {0: _NO_ANSWER}:
            self._missing = {0: "its connection has ended"}


@contextmanager
def open_rendezvous(
    config: RunConfig, say: Callable[[str], None], seconds: float = SECONDS
) -> Generator[Rendezvous, None, None]:
    """A context in which all workers are connected and have the same configuration.

    Inside the context, SIGTERM ends this process as Ctrl-C does; otherwise the system
    would ignore SIGTERM for the first process of a container. A worker that leaves the
    context with an error sends the error to the other workers, as long as the
    rendezvous is open.

    Args:
        config: The run's configuration.
        say: Prints to the user which workers are missing.
        seconds: Seconds to wait for missing workers.

    Raises:
        ConfigError: The environment does not define this worker's rank, or its port is
            taken.
        ArtifactError: The workers differ in version, backend or configuration.
        LostWorkerError: Some workers do not connect.
    """
    place = find_rank(os.environ)
    if place.count == 1:
        yield Rendezvous(place)
        return
    side = ChiefRendezvous if place.is_chief else MemberRendezvous
    rendezvous = side(place, say, seconds)
    with handling(_stop, signal.SIGTERM):
        try:
            backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
            facts = {"version": VERSION, "KERAS_BACKEND": backend}
            rendezvous.assert_equal({**facts, **flatten(config)})
            yield rendezvous
        except BaseException as error:
            rendezvous.close(error)
            raise
        rendezvous.close()


def _stop(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
