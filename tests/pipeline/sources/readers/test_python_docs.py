"""Docstrings are read from source files; nothing is imported."""

import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import PythonDocsSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.work_units import plan_units, read_unit

SOURCE = '''"""What the module does."""
raise RuntimeError("this must never run")


class Thing:
    """A thing.

        Indented.
    """

    async def act(self):
        """Acts."""

    def silent(self): ...
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "made_up_package"
    (folder / "deep").mkdir(parents=True)
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "deep/broken.py").write_text("def (:\n")
    (folder / "deep/latin.py").write_bytes(
        b'# -*- coding: latin-1 -*-\n"""Caf\xe9."""\n'
    )
    (folder / "data.txt").write_text('"""not Python"""')
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_docstrings_with_their_lines(package: Path) -> None:
    source = PythonDocsSourceConfig(packages=("made_up_package",))
    files = list_files(source)
    assert [file.name for file in files] == [
        "made_up_package/__init__.py",
        "made_up_package/deep/broken.py",
        "made_up_package/deep/latin.py",
    ]
    (unit,) = plan_units(files, source, 10**6)
    found = list(read_unit(unit, source))
    init = "made_up_package/__init__.py"
    assert found[:3] == [
        Document("What the module does.", init, 1),
        Document("A thing.\n\nIndented.", init, 5),
        Document("Acts.", init, 11),
    ]
    assert isinstance(found[3], Rejected)
    assert found[3].reason == "not Python that parses"
    assert found[4] == Document("Café.", "made_up_package/deep/latin.py", 1)
    assert "made_up_package" not in sys.modules


def test_threads_that_read_while_garbage_is_collected(package: Path) -> None:
    """As with JAX, which runs Python at each collection: another thread may go on."""
    (package / "long.py").write_text("def f(a): return [(a + 1) * -a]\n" * 300)
    source = PythonDocsSourceConfig(packages=("made_up_package",))
    (unit,) = plan_units(list_files(source), source, 10**6)

    def hand_over(phase, info):
        time.sleep(0.0001)

    def read(_):
        return list(read_unit(unit, source))

    thresholds = gc.get_threshold()
    gc.callbacks.append(hand_over)
    gc.set_threshold(100)
    try:
        with ThreadPoolExecutor(4) as threads:
            first, *others = threads.map(read, range(8))
    finally:
        gc.callbacks.remove(hand_over)
        gc.set_threshold(*thresholds)
    assert all(found == first for found in others)


@pytest.mark.parametrize("name", ["no_such_package", "os.path", "sys", "../etc"])
def test_what_is_no_package(name: str) -> None:
    with pytest.raises(DataError, match="is not an installed top-level package"):
        list_files(PythonDocsSourceConfig(packages=(name,)))


FUNCTIONS = '''
class Thing:
    def area(self, size):
        """Gives
        the area.

        Slowly.
        """  # kept
        text = """
    less indented
        """

        return size * size

    @property
    def one_line(self): "Is one."; return 1

async def näïve(x):
    "Doubles ‘x’."; y = x  # a comment
    return 2 * y

def stub():
    """Nothing to it."""

def also_stub():
    """Nothing to it."""
    ...

def undocumented():
    return 3

def surrogate():
    "\\ud800"
    return 4
'''

SUMMARIES = [
    (
        "async def näïve(x):\n    y = x  # a comment\n    return 2 * y",
        "Doubles ‘x’.",
    ),
    (
        "def area(self, size):  # kept\n"
        '    text = """\n'
        "less indented\n"
        '    """\n'
        "\n"
        "    return size * size",
        "Gives the area.",
    ),
    ("def one_line(self): return 1", "Is one."),
]


def test_code_and_summary(package: Path) -> None:
    (package / "__init__.py").write_text(FUNCTIONS)
    source = PythonDocsSourceConfig(packages=("made_up_package",), examples="summaries")
    (unit,) = plan_units(list_files(source), source, 10**6)
    found = [
        item for item in read_unit(unit, source) if item.source.endswith("__init__.py")
    ]
    rejected = [item for item in found if isinstance(item, Rejected)]
    assert [(item.reason[:26], item.offset) for item in rejected] == [
        (
            "contains a lone surrogate,",
            FUNCTIONS[: FUNCTIONS.index("def surr")].count("\n") + 1,
        )
    ]
    documents = [item for item in found if isinstance(item, Document)]
    assert [(item.text, item.target_text) for item in documents] == SUMMARIES
    for item in documents:
        compile(item.text, "it is still Python", "exec")


def test_an_imported_package_is_the_one_on_the_disk(package: Path, monkeypatch) -> None:
    """As TensorFlow does, it has added a folder of its own to its path."""
    source = PythonDocsSourceConfig(packages=("made_up_package",))
    (package / "__init__.py").write_text("__path__ += [__path__[0] + '/deep']")
    before = list_files(source)
    # So that the module is forgotten again after the test.
    monkeypatch.setitem(sys.modules, "made_up_package", None)
    del sys.modules["made_up_package"]
    import_module("made_up_package")
    assert list_files(source) == before
