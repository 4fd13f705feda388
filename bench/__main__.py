"""`python -m bench`: measures every pair and writes `bench/RESULTS.md`."""

import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bench.corpus import whole_process
from transbeam.configs.cli.arguments import usable_cores

MEASUREMENTS = ("tokenizing",)
PACKAGES = ("tensorflow", "keras", "keras-hub", "tensorflow-text", "tokenizers")
TITLE = "\n## Tokenizers\n"
HEADER = """
`python -m bench` made this table. Ours and the peer run in turns in one process, after
one run of each to warm up. Medians, with the smallest and the largest in brackets; the
ratio is taken round by round, and above 1 we are faster.

| work | ours | peer | ratio |
|---|---|---|---|
"""


def main() -> None:
    """Runs the measurements one after another, each in a process of its own."""
    rows = []
    for name in MEASUREMENTS:
        rows += whole_process([sys.executable, "-m", f"bench.{name}"]).splitlines()
        print(rows[-1], flush=True)
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    machine = f"{usable_cores()} cores, {platform.machine()}, {platform.system()}"
    footer = f"\nPython {platform.python_version()}, {versions}; {machine}.\n"
    results = Path(__file__).parent / "RESULTS.md"
    # What other commands of this folder measured stands below, under its own headings.
    above, heading, below = results.read_text("utf-8").partition(TITLE)
    _, next_heading, others = below.partition("\n## ")
    table = HEADER + "\n".join(rows) + "\n" + footer
    results.write_text(above + heading + table + next_heading + others, "utf-8")


if __name__ == "__main__":
    main()
