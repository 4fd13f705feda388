"""Detects processor features that are reported as available but do not work.

TensorFlow's kernels query the processor for its instructions. Some virtual machines
report AMX, Intel's matrix unit, as available but hide the part of CPUID that describes
the layout of its tiles. Without the tile layout, TensorFlow's kernels configure no
tiles, and the first product of bfloat16 matrices kills the process with `Illegal
instruction`.
"""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Intel's manual, CPUID: "Tile Information" is leaf 1DH.
_TILE_LEAF = 0x1D
# Linux's names for the model and the instructions, on x86 and on ARM.
_IDENTITY = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "Features",
)


def processor_environment(cpuinfo: Path = _CPUINFO) -> dict[str, str]:
    """Environment variables that keep TensorFlow from using instructions that fail.

    Args:
        cpuinfo: The path of `/proc/cpuinfo`; if it does not exist, nothing is
            restricted.

    Returns:
        `ONEDNN_MAX_CPU_ISA` if AMX is reported as available but cannot be used; else
        empty.

    Example:
    >>> processor_environment(Path("no/such/file"))
    {}
    """
    facts = _read_facts(cpuinfo)
    announced = "amx_tile" in facts.get("flags", "").split()
    leaves = facts.get("cpuid level", "")
    if announced and leaves.isdecimal() and int(leaves) < _TILE_LEAF:
        return {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    return {}


def identify_processor(cpuinfo: Path = _CPUINFO) -> dict[str, str]:
    """Model and instruction sets of the processor, as named in `/proc/cpuinfo`.

    Args:
        cpuinfo: The path of `/proc/cpuinfo`; if it does not exist, only the
            architecture is known.

    Example:
    >>> list(identify_processor(Path("no/such/file")))
    ['architecture']
    """
    facts = _read_facts(cpuinfo)
    known = {name: facts[name] for name in _IDENTITY if name in facts}
    return {"architecture": platform.machine(), **known}


def _read_facts(cpuinfo: Path) -> dict[str, str]:
    """Reads the `/proc/cpuinfo` entries of the first core."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
