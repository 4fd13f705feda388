"""Lines of TF Serving's sources that tests cite, looked up where the sources are.

A test of docs/conformance.md says whose case it retells, in its body or decorators:
`# tensorflow/serving: FILE:LINE WORD`, with as much of the end of the file's path as
tells it from others, and a word that the line has, so that neither moves unnoticed.

    python -m tests.harness.cited_lines CHECKOUT

The checkout, or a bare repository, has the commit that docs/conformance.md names. It
may also be named by TENSORFLOW_SERVING_SOURCES.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests/serving/server"
TABLE = ROOT / "docs/conformance.md"
VARIABLE = "TENSORFLOW_SERVING_SOURCES"

_MARK = "# tensorflow/serving" + ": "
_CITATION = re.compile(re.escape(_MARK) + r"(\S+):(\d+) (\S+)$")
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_TEST = re.compile(r"`([\w./]*)::(\w+)`")
_SOURCES = re.compile(
    r"\.(cc|py|md)`|`(rest|config|batching|handler_test|server_test)`"
)


@dataclass(frozen=True)
class Citation:
    """A line of TF Serving's sources.

    Attributes:
        test: The file that cites it, below the repository.
        at: The line there.
        file: The end of its path.
        line: Its number, from 1.
        word: Part of it.
    """

    test: Path
    at: int
    file: str
    line: int
    word: str


def citations(file: Path) -> list[Citation]:
    """Reads the citations of a file of tests.

    Raises:
        ValueError: One is not of the form.
    """
    found = []
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if _MARK not in text:
            continue
        match = _CITATION.search(text)
        if match is None:
            raise ValueError(f"{file}:{number}: expected {_MARK}FILE:LINE WORD")
        cited, line, word = match.groups()
        place = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        found.append(Citation(place, number, cited, int(line), word))
    return found


def commit() -> str:
    """The commit of TF Serving that the table is about.

    Raises:
        ValueError: The table names none.
    """
    match = _COMMIT.search(TABLE.read_text())
    if match is None:
        raise ValueError(f"{TABLE}: expected a commit of tensorflow/serving in full")
    return match[0]


def wrong_lines(cited: list[Citation], sources: Path, at: str) -> list[str]:
    """Looks citations up.

    Args:
        cited: Them.
        sources: A checkout or bare repository of TF Serving.
        at: The commit.

    Returns:
        A sentence for each line that is not there, or is another.
    """
    files = _git(sources, "ls-tree", "-r", "--name-only", at, "tensorflow_serving/")
    texts: dict[str, list[str]] = {}
    wrong = []
    for one in cited:
        where = f"{one.test}:{one.at}: {one.file}"
        paths = [path for path in files if f"/{path}".endswith(f"/{one.file}")]
        if len(paths) != 1:
            wrong.append(f"{where}: {len(paths)} files of that name at {at[:7]}")
            continue
        if paths[0] not in texts:
            texts[paths[0]] = _git(sources, "show", f"{at}:{paths[0]}")
        lines = texts[paths[0]]
        if one.line > len(lines):
            wrong.append(f"{where}:{one.line}: the file has {len(lines)} lines")
        elif one.word not in lines[one.line - 1]:
            found = lines[one.line - 1].strip()
            wrong.append(f"{where}:{one.line}: expected {one.word!r}, found {found!r}")
    return wrong


def _git(sources: Path, *arguments: str) -> list[str]:
    told = subprocess.run(
        ["git", "-C", sources, *arguments], capture_output=True, check=True
    )
    return told.stdout.decode("utf-8", "replace").splitlines()


def rows_without_citation() -> list[str]:
    """Cases of the table that are retold, and whose tests do not say from where."""
    cited: dict[Path, Mapping[str, bool]] = {}
    missing = []
    for case, source, tests in _rows():
        if not _SOURCES.search(source):
            continue
        names = list(_named_tests(tests))
        for file, _ in names:
            cited.setdefault(file, _functions_that_cite(file))
        if not any(cited[file].get(name, False) for file, name in names):
            missing.append(case)
    return missing


def missing_tests() -> list[str]:
    """Tests that the table names and that its files do not have."""
    return [
        f"{file.relative_to(ROOT)}::{name}"
        for _, _, tests in _rows()
        for file, name in _named_tests(tests)
        if name not in _functions_that_cite(file)
    ]


def _rows() -> Iterator[tuple[str, str, str]]:
    """Case, source and tests of each row, with the files that `::name` leaves out."""
    file = ""
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != 4 or "::" not in cells[2]:
            continue
        tests = cells[2]
        for match in list(_TEST.finditer(tests)):
            file = match[1] or file
            tests = tests.replace(match[0], f"`{file}::{match[2]}`")
        yield cells[0], cells[1], tests


def _named_tests(tests: str) -> Iterator[tuple[Path, str]]:
    for match in _TEST.finditer(tests):
        yield (TESTS / match[1]).resolve(), match[2]


def _functions_that_cite(file: Path) -> dict[str, bool]:
    if not file.exists():
        return {}
    places = [one.at for one in citations(file)]
    found = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or first
            found[node.name] = any(first <= place <= last for place in places)
    return found


def main(arguments: list[str]) -> int:
    """Prints what is wrong, and what cannot be said without the sources."""
    cited = [one for file in sorted(TESTS.rglob("*.py")) for one in citations(file)]
    sources = next(iter(arguments), os.environ.get(VARIABLE))
    problems = [f"{test}: named by {TABLE.name}" for test in missing_tests()]
    problems += [f"no line is cited for: {case}" for case in rows_without_citation()]
    if sources:
        problems += wrong_lines(cited, Path(sources), commit())
        print(f"{len(cited)} lines looked up in {sources} at {commit()}")
    else:
        print(f"{len(cited)} lines not looked up: name a checkout, or set {VARIABLE}")
    print("\n".join(problems or ["nothing is wrong"]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
