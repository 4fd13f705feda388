"""How much memory a stage takes at its peak, for the closing screen of a run."""

import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class Peak:
    """Filled in when the block that it measures ends."""

    megabytes: int = 0


@contextmanager
def peak_memory() -> Generator[Peak, None, None]:
    """Measures the largest resident size of this process, or of a worker of it.

    Where Linux lets the high-water mark be reset, it is the block's own; elsewhere
    that of the process so far.

    Example:
    >>> with peak_memory() as peak:
    ...     block = bytearray(50_000_000)
    >>> peak.megabytes > 50
    True
    """
    with suppress(OSError):
        _RESET.write_text("5")
    peak = Peak()
    yield peak
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak.megabytes = max(_own_kilobytes(), workers) // 1000


def _own_kilobytes() -> int:
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
