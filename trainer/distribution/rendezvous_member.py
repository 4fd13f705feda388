"""Members' side of the rendezvous: connects to the chief."""

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

_SECONDS_BETWEEN = 0.5
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
        self._connector: SideThread | None = None

    def exchange(self, facts: Any) -> list[Any]:
        self._facts = facts
        if self._connector is None:
            self._connector = SideThread(self._connect, "rendezvous")
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
