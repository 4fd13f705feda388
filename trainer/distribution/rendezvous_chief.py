"""Chief's side of the rendezvous: accepts the others and distributes their facts."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from transbeam.configs.system.daemon_threads import SideThread
from transbeam.trainer.distribution.connection import JsonConnection, dial
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.rendezvous import (
    SECONDS,
    LostWorkerError,
    SeveralRendezvous,
)

_SECONDS_TO_GREET = 10.0
_SECONDS_BETWEEN = 0.5
_NOT_HERE = "something listens there, but has not come to worker 0"


class ChiefRendezvous(SeveralRendezvous):
    """The rendezvous of worker 0; see `SeveralRendezvous` for the arguments.

    A worker counts as present when it has connected to the chief and, if it has an
    address, the chief can connect to it too, as the backend will have to.
    """

    def __init__(
        self, place: ProcessInfo, say: Callable[[str], None], seconds: float = SECONDS
    ):
        super().__init__(place, say, seconds)
        self._connections: dict[int, JsonConnection] = {}
        self._facts: dict[int, Any] = {}
        self._unreached: dict[int, str] = {}
        self._told_at = 0.0
        self._acceptor: SideThread | None = None

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
        if time.monotonic() > self._told_at + 1:
            self._told_at = time.monotonic()
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
        self._acceptor = SideThread(self._accept, "rendezvous")
        self._acceptor.start()
        for number, address in enumerate(self.place.addresses):
            if number and address:
                self._unreached[number] = ""
                SideThread(lambda n=number: self._probe(n), "rendezvous").start()

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
            SideThread(lambda c=connection: self._read(c), "rendezvous").start()

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
