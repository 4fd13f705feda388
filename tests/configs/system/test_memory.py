"""Memory that is free goes back to the system."""

import gc
import platform
import weakref
from pathlib import Path

import pytest

from transbeam.configs.system.memory import freeze_garbage_collection, give_back_memory


def resident() -> int:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 10**6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it")
def test_what_is_free_between_blocks_that_are_in_use_is_given_back():
    before = resident()
    blocks = [bytes(1000) for _ in range(300_000)]
    kept = blocks[::1000]
    del blocks
    give_back_memory()
    assert len(kept) == 300
    assert resident() < before + 100


class Circle:
    def __init__(self):
        self.itself = self


def test_what_settled_is_passed_over_until_memory_is_given_back():
    circle = Circle()
    gone = weakref.ref(circle)
    freeze_garbage_collection()
    try:
        del circle
        gc.collect()
        assert gone() is not None
        give_back_memory()
        assert gone() is None
        assert gc.get_freeze_count()  # the rest is settled still
    finally:
        gc.unfreeze()
