"""Shared by all tests: quiet libraries, patient hypothesis, small runs."""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import hypothesis
import pytest

from transbeam.configs.system import quiet_imports

# Once for all, for what is imported here and for the processes that tests start.
quiet_imports.quiet_import()
# And for what they compute, on whatever machine: nothing is measured unasked.
os.environ.setdefault("TRANSBEAM_BFLOAT16_MATMUL", "float32")

pytest_plugins = ["tests.harness.report", "tests.small_run"]

# A traced graph is a million objects, nearly all of which stay: to look through them
# after every 700 new ones takes a tenth of the time of all tests.
gc.set_threshold(200_000, 50, 1000)

# Bytes that a process may grow by before garbage is looked for within a file's tests.
GROWTH = 1e9
_after_last_look = [0.0]

# Deadlines measure the machine, not the code.
hypothesis.settings.register_profile("transbeam", deadline=None, max_examples=60)
hypothesis.settings.load_profile("transbeam")

# Files in these take longest, some a minute for a single test.
LONG = ("e2e", "serving", "trainer")


class Quietly(MetaPathFinder, Loader):
    """Imports a loud library as the commands do, and when it is first asked for.

    That takes seconds, which neither xdist's controller needs, for it runs no test, nor
    whoever runs a file that has nothing to do with TensorFlow.
    """

    # Keras would import TensorFlow; the first of them is to be TensorFlow.
    LOUD = {
        "keras": "tensorflow",
        "tensorflow": "tensorflow",
        "tensorflow_text": "tensorflow_text",
        "apache_beam": "apache_beam",
    }

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        library = self.LOUD.get(name)
        if library is None or library in self.begun:
            return None  # of no concern, or it is asked for by what is said below
        self.begun.add(library)
        if quiet_imports._IMPORTING.locked():
            return None  # a command's own `quiet_import` is at it
        # Without that lock: who waits for it here holds Python's lock of the module.
        quiet_imports._import_quietly([library])
        module = sys.modules.get(name)
        if module is None:
            return None
        # Python asks the module for its spec, too, and would execute it again by that.
        spec = ModuleSpec(name, self)
        self.specs[name], module.__spec__ = module.__spec__, spec
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed already."""
        module.__spec__ = self.specs.pop(module.__name__)


sys.meta_path.insert(0, Quietly())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps the garbage collector away from what is imported and collected.

    Nearly all of it lives until the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after the order was drawn at random
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with long files, or at the end one worker waits for the other."""
    items.sort(key=lambda item: not set(LONG) & set(item.nodeid.split("/")))


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_left_alone():
    """Keeps the garbage collector away from what a module's tests left behind.

    Graphs that TensorFlow and Keras hold on to are a million objects after some hundred
    tests. Keras goes through all of them for each layer that it makes smaller.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Looks for garbage where a file's tests leave much: each a graph of gigabytes."""
    if _resident() > _after_last_look[0] + GROWTH:
        gc.collect()
        _after_last_look[0] = _resident()


def _resident() -> float:
    """Bytes of memory that this process takes; 0 where no file says it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
