"""Runs the commands of the documentation, as a reader would: `python -m tests.docs`.

A command is a line that begins with `$ ` in a fence marked `console`. They run in the
order in which they stand, from the project's root, with the environment's commands on
the path. The first that fails ends it. `make test` is left out: CI has just run it.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

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
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for command in commands(document):
            if command in DONE_BEFORE:
                continue
            print(f"\n{document.name}: $ {command}", flush=True)
            began = time.monotonic()
            done = subprocess.run(
                command, shell=True, cwd=ROOT, env={**os.environ, "PATH": path}
            )
            print(f"({time.monotonic() - began:.0f} s)", flush=True)
            if done.returncode:
                print(f"exit code {done.returncode}", flush=True)
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
