"""Peak memory of a stage, available memory, and returning memory to the system."""

import ctypes
import gc
import os
import resource
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")

# Bytes that a training uses in addition to its model: TensorFlow, the compiled step and
# the input pipeline. 1.1 to 1.6 GB in most runs of bench/RESULTS.md.
RUNTIME = 1_500_000_000


class Peak:
    """Peak memory, set at the end of the measured block."""

    megabytes: int = 0


@contextmanager
def peak_memory() -> Generator[Peak, None, None]:
    """Measures the peak resident memory of this process, or of a child process of it.

    If Linux allows resetting the high-water mark, the result is the peak within the
    block; otherwise it is the peak since the process started.

    Example:
    >>> with peak_memory() as peak:
    ...     block = bytearray(50_000_000)
    >>> peak.megabytes > 50
    True
    """
    reset_peak()
    peak = Peak()
    yield peak
    children = _max_kilobytes(resource.RUSAGE_CHILDREN)
    peak.megabytes = max(peak_bytes() // 1024, children) // 1000


def reset_peak() -> bool:
    """Resets the peak of this process's resident memory, if Linux allows it.

    Returns:
        Whether it was reset; otherwise the peak is that since the process started.
    """
    with suppress(OSError):
        _RESET.write_text("5")
        return True
    return False


def peak_bytes() -> int:
    """The peak resident memory of this process in bytes, since it was last reset.

    Example:
    >>> peak_bytes() >= (resident_bytes() or 0) > 0
    True
    """
    kilobytes = _status_kilobytes("VmHWM") or _max_kilobytes(resource.RUSAGE_SELF)
    return 1024 * kilobytes


def _max_kilobytes(who: int) -> int:
    return resource.getrusage(who).ru_maxrss


def give_back_memory() -> None:
    """Returns freed memory to the system, after a large object was deleted.

    The C library of Linux keeps freed memory between blocks that are still in use.
    After a model is deleted, the freed memory can be hundreds of megabytes, which look
    like a leak and cannot be used by other processes. Where `malloc_trim` does not
    exist, only Python's reference cycles are collected.
    """
    settled = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if settled:
        gc.freeze()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def freeze_garbage_collection() -> None:
    """Excludes all existing objects from Python's garbage collection.

    TensorFlow and a model's graph are a million permanent objects. Each time the
    garbage collector traverses all objects of TensorFlow and a model's graph, all
    threads pause for a third of a second. Objects that become garbage later are
    collected by `give_back_memory`.
    """
    gc.collect()
    gc.freeze()


def resident_bytes() -> int | None:
    """Returns the resident memory of this process in bytes; None except on Linux.

    Example:
    >>> (resident_bytes() or 2**30) > 2**20
    True
    """
    kilobytes = _status_kilobytes("VmRSS")
    return None if kilobytes is None else 1024 * kilobytes


def _status_kilobytes(name: str) -> int | None:
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return None


@dataclass(frozen=True)
class Memory:
    """Memory that is available to a training.

    Attributes:
        where: The device, such as `this machine`.
        size: Bytes.
        is_shared: True if the process itself also uses this memory; false for an
            accelerator's memory.
    """

    where: str
    size: int
    is_shared: bool = True

    def beside_runtime(self) -> "Memory":
        """Returns the memory that remains for a model once TensorFlow has started.

        Example:
        >>> Memory("this machine", 2_000_000_000).beside_runtime().size
        500000000
        """
        if not self.is_shared:
            return self
        where = f"{self.where} beside the {RUNTIME / 1e9:.1f} GB of TensorFlow itself"
        return Memory(where, max(self.size - RUNTIME, 0))


def find_memory(*, accelerators: bool = True) -> Memory | None:
    """The first accelerator's memory, or the machine's free memory; None if unknown.

    Args:
        accelerators: True if the work may run on an accelerator.
    """
    return (_of_accelerator() if accelerators else None) or _of_machine()


def _of_accelerator() -> Memory | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not shutil.which("nvidia-smi") or visible in ("", "-1"):
        return None
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    if visible:
        query.append(f"--id={visible.partition(',')[0]}")
    with suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        output = subprocess.run(
            query, capture_output=True, text=True, timeout=5, check=True
        )
        name, size = output.stdout.splitlines()[0].rsplit(",", 1)
        return Memory(name.strip(), int(size.split()[0]) * 2**20, is_shared=False)
    return None


def _of_machine() -> Memory | None:
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = _MACHINE.read_text().splitlines()
        left = next(line for line in lines if line.startswith("MemAvailable:"))
        return Memory("this machine", min(int(left.split()[1]) * 1024, _of_container()))
    return None


def _of_container() -> int:
    """Returns the memory left to the container; 2**63 if there is no limit."""
    with suppress(OSError, ValueError):
        most, taken = (
            int((_CONTAINER / name).read_text())
            for name in ("memory.max", "memory.current")
        )
        return most - taken
    return 2**63
