"""Runs the commands of the documentation, as readers would: `python -m tests.docs`.

A command is a line that begins with `$ ` in a fence marked `console`. There are two
readers at a time: one of the README, in the project's root, and one of docs/, in a
folder with the same files and runs of its own. Each runs commands in the order in which
they stand, with the environment's commands on the path. The first that fails ends it.
`make test` is left out: CI has just run it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
DONE_BEFORE = {"make test"}


def commands(document: Path) -> list[str]:
    """The commands of a document, in order, continued lines joined."""
    blocks = FENCE.findall(document.read_text("utf-8"))
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def main() -> int:
    """Runs every command of the README and of docs/."""
    failed = Event()
    with tempfile.TemporaryDirectory() as elsewhere, ThreadPoolExecutor() as readers:
        for file in ROOT.iterdir():
            if file.name != "runs" and not file.name.startswith("."):
                Path(elsewhere, file.name).symlink_to(file)
        documents = sorted((ROOT / "docs").glob("*.md"))
        reading = [
            readers.submit(read, [ROOT / "README.md"], ROOT, failed),
            readers.submit(read, documents, Path(elsewhere), failed),
        ]
        for reader in reading:
            reader.result()
    return int(failed.is_set())


def read(documents: list[Path], folder: Path, failed: Event) -> None:
    """Runs commands in a folder, until one fails, whosever it is."""
    for document in documents:
        for command in commands(document):
            if command in DONE_BEFORE:
                continue
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
