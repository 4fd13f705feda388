"""Runs the commands of the documentation, as readers would: `python -m tests.docs`.

A command is a line that begins with `$ ` in a fence marked `console`. A fence with a
title, such as ```` ```yaml title="mine.yaml" ````, is a file, which is written where it
stands. There are two readers at a time. Each takes a document, runs its commands in the
order in which they stand, with the environment's commands on the path, and takes the
next. They share a folder that looks like the project's root, so that what one has
trained the other finds trained, and take turns where commands are about the same run.
A `transbeam run` that another document has done, in the same words, is not repeated: it
would find all of its stages done. The first command that fails ends it. `make test` is
left out: CI has just run it. The demo is trained for few of its steps.

The commands of the README are among those of docs/, so it is not read here.
`python -m tests.docs docs/tutorials/serve.md` reads one document alone.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(?P<mark>.*)\n(?P<inside>(?s:.*?))^```", re.MULTILINE)
FILE = re.compile(r"\w+ title=\"(?P<name>[\w./-]+)\"")
# The demo, which others go on with.
FIRST = "docs/tutorials/first_run.md"
DONE_BEFORE = {"make test"}
# That it learns much is not what its commands are run for.
DEMO_STEPS = ("steps: 1300", "steps: 150")
READERS = 2
WHOLE_RUN = re.compile(r"transbeam run [\w./]+")
# The run of a command: `configs/tiny/masked.yaml` and `runs/tiny_masked` are one.
RUN = re.compile(r"\b(?:configs/|runs/)((?:tiny[/_])?\w+)")


@dataclass(frozen=True)
class NamedFile:
    """A file that a document has its reader write."""

    name: str
    text: str


def steps(document: Path) -> Iterator[str | NamedFile]:
    """The commands and files of a document, in order, continued lines joined."""
    for fence in FENCE.finditer(document.read_text("utf-8")):
        if fence["mark"] == "console":
            joined = fence["inside"].replace("\\\n", " ")
            lines = joined.splitlines()
            yield from (line[2:] for line in lines if line.startswith("$ "))
        elif file := FILE.fullmatch(fence["mark"]):
            yield NamedFile(file["name"], fence["inside"])


def commands(document: Path) -> list[str]:
    """The commands of a document, in order."""
    return [step for step in steps(document) if isinstance(step, str)]


def main(names: Sequence[str]) -> int:
    """Runs every command of docs/, or those of the documents that are named."""
    documents = [ROOT / name for name in names] or sorted((ROOT / "docs").rglob("*.md"))
    # The longest first, or at the end one reader waits for the other.
    ordered = sorted(documents, key=lambda document: -len(commands(document)))
    waiting = deque(sorted(ordered, key=lambda document: document != ROOT / FIRST))
    failed, turns, done = Event(), defaultdict(Lock), set()
    with desk() as folder, ThreadPoolExecutor() as readers:
        reading = [
            readers.submit(read, waiting, folder, failed, turns, done)
            for _ in range(READERS)
        ]
        for reader in reading:
            reader.result()
    return int(failed.is_set())


@contextmanager
def desk() -> Iterator[Path]:
    """A folder that looks like the project's root to a reader, without runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {"runs", "configs", ".git"}
        for file in ROOT.iterdir():
            if file.name not in own:
                (folder / file.name).symlink_to(file)
        shutil.copytree(ROOT / "configs", folder / "configs")
        demo = folder / "configs/demo.yaml"
        text = demo.read_text("utf-8")
        assert DEMO_STEPS[0] in text
        demo.write_text(text.replace(*DEMO_STEPS), "utf-8")
        yield folder


def read(
    waiting: deque[Path],
    folder: Path,
    failed: Event,
    turns: Mapping[str, Lock],
    runs_done: set[str],
) -> None:
    """Runs the commands of documents until one fails, whosever it is.

    Args:
        waiting: Documents that nobody has taken yet.
        folder: Where commands run.
        failed: Set by the first that fails.
        turns: A lock for each run.
        runs_done: Commands that did a whole run.
    """
    while waiting:
        document = waiting.popleft()
        for command in steps(document):
            if isinstance(command, NamedFile):
                (folder / command.name).write_text(command.text, "utf-8")
                continue
            if command in DONE_BEFORE:
                continue
            with ExitStack() as mine:
                for name in sorted({n.replace("/", "_") for n in RUN.findall(command)}):
                    mine.enter_context(turns[name])
                if failed.is_set():
                    return
                if command in runs_done:
                    continue
                began = time.monotonic()
                done = run(command, folder)
                seconds = time.monotonic() - began
                if WHOLE_RUN.fullmatch(command):
                    runs_done.add(command)
            name = document.relative_to(ROOT / "docs")
            print(f"\n{name}: $ {command}\n{done.stdout}({seconds:.0f} s)")
            if done.returncode:
                print(f"{name}: exit code {done.returncode}")
                failed.set()
            sys.stdout.flush()


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command, of which a part may go on in the background."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # A file, as a pipe would be waited for until what goes on has ended.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        said.seek(0)
        done.stdout = said.read()
    return done


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
