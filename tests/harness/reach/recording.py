"""A recording of what each test executed, for questions."""

import difflib
import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import coverage

from tests.harness.reach.changes import Change, function_lines
from tests.harness.reach.record import DATA, FOLDER, ITEMS, ROOT, SOURCES


class Recording:
    """The tests that executed a function, or opened a file.

    Args:
        folder: Where `python -m tests.harness.reach.record` left it.
        root: The folder of the files that it speaks of.

    Raises:
        FileNotFoundError: There is none.
    """

    def __init__(self, folder: Path = FOLDER, root: Path = ROOT) -> None:
        items = json.loads((folder / ITEMS).read_text("utf-8"))
        self.sources, self.root = folder / SOURCES, root
        # Where the project lay then: files are named in full.
        self._recorded_root = Path(items["root"])
        self.seconds: dict[str, float] = {}
        self._tests: dict[str, set[str]] = defaultdict(set)  # by context
        for test, found in items["tests"].items():
            self.seconds[test] = found["seconds"]
            for context in found["contexts"]:
                self._tests[context].add(test)
        self._opened: dict[str, set[str]] = defaultdict(set)  # contexts, by file
        for context, files in items["opened"].items():
            for file in files:
                self._opened[file].add(context)
        self._data = coverage.CoverageData(str(folder / DATA))
        self._data.read()
        self._breadth: dict[str, int] = {}

    def knows(self, path: str) -> bool:
        """Returns whether a Python file existed when the tests were recorded."""
        return (self.sources / path).is_file()

    def executed(self, change: Change) -> tuple[set[str], set[str]]:
        """The tests that executed changed lines, and those that executed others.

        Args:
            change: Of a file that the recording knows. Of code outside of functions
                it is not known who executed it, as that is whoever came first.

        Returns:
            Tests that executed lines that are gone or have others beside them, and
            tests that executed anything of the changed functions, or of the file
            where that is not known.
        """
        source = (self.sources / change.path).read_bytes()
        functions = function_lines(source)
        everything = {line for lines in functions.values() for line in lines}
        known = [functions[name] for name in change.functions if name in functions]
        lines = {line for part in known for line in part}
        if change.elsewhere or len(known) < len(change.functions) or not known:
            lines = everything
        now = self.root / change.path
        touched = _touched(source, now.read_bytes() if now.is_file() else b"")
        contexts = self._data.contexts_by_lineno(str(self._recorded_root / change.path))
        inside = self._tests_of(contexts, touched & everything)
        return inside, self._tests_of(contexts, lines) - inside

    def opened(self, path: str) -> set[str]:
        """The tests that opened a file that is no Python."""
        return self._of(self._opened.get(path, set()))

    def breadth(self, test: str) -> int:
        """Number of the project's files that a test executes by itself."""
        if not self._breadth:
            # The API has no such question, and the schema is documented.
            with closing(sqlite3.connect(self._data.data_filename())) as data:
                counted = data.execute(
                    "select context, count(distinct file_id) from line_bits "
                    "join context on context.id = context_id group by context_id"
                )
                self._breadth = dict(counted.fetchall())
        return self._breadth.get(test, 0)

    def _tests_of(self, contexts: dict[int, list[str]], lines: set[int]) -> set[str]:
        return self._of({name for line in lines for name in contexts.get(line, ())})

    def _of(self, contexts: set[str]) -> set[str]:
        return set().union(*(self._tests.get(name, set()) for name in contexts))


def _touched(before: bytes, after: bytes) -> set[int]:
    """The lines of the first text that differ, or that new ones stand beside."""
    old, new = before.splitlines(), after.splitlines()
    found: set[int] = set()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for what, first, last, _, _ in blocks:
        if what == "insert":
            found |= {first, first + 1}
        elif what != "equal":
            found |= set(range(first + 1, last + 1))
    return found
