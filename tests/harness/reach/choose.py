"""The tests that changes can reach, nearest first."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.reach.changes import ROOT, Change
from tests.harness.reach.graph import PACKAGES, ImportGraph
from tests.harness.reach.recording import Recording
from tests.harness.stages import PRODUCT

# Nearness of a test to a change; the lowest number runs first.
ITSELF, CHANGED_LINES_NEAR, CHANGED_LINES, SAME_CODE, IMPORTS, PERHAPS = range(6)
REASONS = (
    "changed itself",
    "executed the changed lines, or is new, and imports them",
    "executed the changed lines",
    "executed code beside them",
    "imports the file",
    "may import or read it by way of others",
)
# Nobody can say what they reach.
OF_EVERYTHING = re.compile(
    r"(setup\.py|constraints\.txt|pyproject\.toml|tests/conftest\.py)$"
)


@dataclass
class Choice:
    """Tests by their id, and files of which all tests run; each with its nearness.

    Attributes:
        tests: Ids of recorded tests.
        files: Paths of files whose tests are not known one by one.
        notes: What a person should know of how they were chosen.
    """

    tests: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, tests: Iterable[str], nearness: int) -> None:
        for test in tests:
            self.tests[test] = min(nearness, self.tests.get(test, nearness))

    def add_files(self, files: Iterable[str], nearness: int) -> None:
        for file in files:
            self.files[file] = min(nearness, self.files.get(file, nearness))


def choose(
    changes: list[Change],
    graph: ImportGraph,
    recording: Recording | None,
    root: Path = ROOT,
) -> Choice:
    """Chooses the tests of some changes.

    A change within functions reaches the tests that executed them. One outside, which
    runs on import, reaches whoever imports the file, and so does every change that the
    recording does not know. Files that are no Python reach the tests that opened them
    and those that name them.
    """
    choice = Choice()
    if recording is None:
        choice.notes.append(
            "there is no recording (`make test-record`): chosen by imports alone, "
            "which are many more tests than the change can reach"
        )
    for change in changes:
        if OF_EVERYTHING.search(change.path):
            choice.notes.append(f"{change.path} can reach every test")
            choice.add_files(_test_files(root), PERHAPS)
        elif change.path.endswith(".py"):
            _choose_python(change, graph, recording, choice)
        else:
            _choose_other(change, recording, root, choice)
    return choice


def _choose_python(
    change: Change, graph: ImportGraph, recording: Recording | None, choice: Choice
) -> None:
    room = change.path.split("/")[0]
    is_there = room in (*PRODUCT, *PACKAGES) and (graph.root / change.path).exists()
    itself = [change.path] if is_there else []
    direct = set(_tests_among(graph.importers(change.module), graph))
    if recording is None or not recording.knows(change.path):
        if recording is not None:
            choice.notes.append(f"{change.path} is not in the recording: by imports")
        choice.add_files(itself, ITSELF)
        choice.add_files(direct, IMPORTS)
        choice.add_files(_tests_among(graph.reaching(change.module), graph), PERHAPS)
        return
    own = [t for t in recording.seconds if t.startswith(f"{change.path}::")]
    choice.add(own, ITSELF)
    choice.add_files(itself if _is_test(change.path) else [], ITSELF)
    inside, beside = recording.executed(change)
    near = {test for test in inside if test.partition("::")[0] in direct}
    choice.add(near, CHANGED_LINES_NEAR)
    choice.add(inside - near, CHANGED_LINES)
    choice.add(beside, SAME_CODE)
    choice.add_files(direct, IMPORTS)
    # Likely written with this change, or for it.
    newer = [file for file in direct if not recording.knows(file)]
    choice.add_files(newer, CHANGED_LINES_NEAR)
    if change.elsewhere:
        choice.add_files(_tests_among(graph.reaching(change.module), graph), PERHAPS)


def _choose_other(
    change: Change, recording: Recording | None, root: Path, choice: Choice
) -> None:
    opened = recording.opened(change.path) if recording else set()
    choice.add(opened, CHANGED_LINES)
    name = re.compile(rf"\b{re.escape(Path(change.path).stem)}\b")
    naming = {
        file for file in _test_files(root) if name.search((root / file).read_text())
    }
    choice.add_files(naming, PERHAPS if opened else IMPORTS)


def _tests_among(modules: Iterable[str], graph: ImportGraph) -> Iterator[str]:
    for module in modules:
        path = graph.file(module)
        if _is_test(path):
            yield path


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def _test_files(root: Path) -> list[str]:
    return [str(f.relative_to(root)) for f in (root / "tests").rglob("test_*.py")]
