"""`python -m bench`: measures every pair and writes `bench/RESULTS.md`."""

import importlib
import platform
from importlib.metadata import version
from pathlib import Path

from configs.command import usable_cores
from configs.quiet import quiet_import

MEASUREMENTS = ("tokenizing", "training_step")
PACKAGES = ("tensorflow", "keras", "keras-hub", "tensorflow-text", "tokenizers")
HEADER = """\
# Measurements

`python -m bench` made this table. Ours and the peer run in turns in one process, after
one run of each to warm up. Medians, with the smallest and the largest in brackets; the
ratio is taken round by round, and above 1 we are faster.

| work | ours | peer | ratio |
|---|---|---|---|
"""


def main() -> None:
    """Runs the measurements one after another."""
    quiet_import("tensorflow", "tensorflow_text", "keras_hub")
    rows = []
    for name in MEASUREMENTS:
        rows.append(importlib.import_module(f"bench.{name}").measure().as_row())
        print(rows[-1], flush=True)
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    machine = f"{usable_cores()} cores, {platform.machine()}, {platform.system()}"
    footer = f"\nPython {platform.python_version()}, {versions}; {machine}.\n"
    results = Path(__file__).parent / "RESULTS.md"
    # What other commands of this folder measured stands below, under its own headings.
    _, heading, others = results.read_text("utf-8").partition("\n## ")
    table = HEADER + "\n".join(rows) + "\n" + footer
    results.write_text(table + heading + others, "utf-8")


if __name__ == "__main__":
    main()
