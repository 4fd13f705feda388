"""Runs the commands of the documentation, as readers would: `python -m tests.docs`.

A command is a line that begins with `$ ` in a fence marked `console`. There are two
readers at a time. Each takes a document, runs its commands in the order in which they
stand, with the environment's commands on the path, and takes the next. They share a
folder that looks like the project's root, so that what one has trained the other finds
trained, and take turns where commands are about the same run. The first command that
fails ends it. `make test` is left out: CI has just run it. The demo is trained for few
of its steps.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Lock

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
DONE_BEFORE = {"make test"}
# That it learns much is not what its commands are run for.
DEMO_STEPS = ("steps: 1300", "steps: 150")
READERS = 2
# The run of a command: `configs/tiny/masked.yaml` and `runs/tiny_masked` are one.
RUN = re.compile(r"\b(?:configs/|runs/)((?:tiny[/_])?\w+)")


def commands(document: Path) -> list[str]:
    """The commands of a document, in order, continued lines joined."""
    blocks = FENCE.findall(document.read_text("utf-8"))
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def main() -> int:
    """Runs every command of the README and of docs/."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    # The longest first, or at the end one reader waits for the other.
    waiting = deque(sorted(documents, key=lambda document: -len(commands(document))))
    waiting.remove(documents[0])
    waiting.appendleft(documents[0])  # the demo
    failed, turns = Event(), defaultdict(Lock)
    with desk() as folder, ThreadPoolExecutor() as readers:
        reading = [
            readers.submit(read, waiting, folder, failed, turns) for _ in range(READERS)
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
    waiting: deque[Path], folder: Path, failed: Event, turns: Mapping[str, Lock]
) -> None:
    """Runs the commands of documents until one fails, whosever it is.

    Args:
        waiting: Documents that nobody has taken yet.
        folder: Where commands run.
        failed: Set by the first that fails.
        turns: A lock for each run.
    """
    while waiting:
        document = waiting.popleft()
        for command in commands(document):
            if command in DONE_BEFORE:
                continue
            with ExitStack() as mine:
                for name in sorted({n.replace("/", "_") for n in RUN.findall(command)}):
                    mine.enter_context(turns[name])
                if failed.is_set():
                    return
                began = time.monotonic()
                done = run(command, folder)
                seconds = time.monotonic() - began
            print(f"\n{document.name}: $ {command}\n{done.stdout}({seconds:.0f} s)")
            if done.returncode:
                print(f"{document.name}: exit code {done.returncode}")
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
    raise SystemExit(main())
