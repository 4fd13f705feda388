"""A program of its own that answers every line with the seconds its work took."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


class Answering:
    """The program, started and waiting.

    Args:
        command: The words of it.
    """

    def __init__(self, command: Sequence[object]) -> None:
        self._words = [str(word) for word in command]
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, *question: object) -> float:
        """Answers of a model.

        Raises:
            SystemExit: It has ended.
        """
        asking, answering = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answering is not None
        try:
            asking.write(" ".join(map(str, question)) + "\n")
            asking.flush()
            return float(answering.readline())
        except (BrokenPipeError, ValueError) as error:
            command = " ".join(self._words)
            raise SystemExit(f"{command}: has ended; try it by hand") from error

    def seconds_and_peak(self, *question: object) -> tuple[float, float]:
        """And the megabytes that it held at most meanwhile."""
        # The kernel forgets the peak so far.
        Path("/proc", str(self._process.pid), "clear_refs").write_text("5")
        return self.seconds(*question), self._megabytes("VmHWM")

    def held(self) -> float:
        """The megabytes that it holds now."""
        return self._megabytes("VmRSS")

    def _megabytes(self, field: str) -> float:
        status = Path("/proc", str(self._process.pid), "status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith(field)]
        return int(line.split()[1]) / 1e3
