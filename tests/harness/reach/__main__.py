"""Runs the tests that a change can reach: `make test-changed SINCE=main`.

Nearest first, until one fails: those that executed the changed lines, then those that
executed code beside them, then whoever imports the file. What each test executes is
recorded by `make test-record`.
"""

import argparse
import json
import subprocess
import sys
import tempfile

from tests.harness.reach.changes import ROOT, changes_since
from tests.harness.reach.choose import REASONS, Choice, choose
from tests.harness.reach.graph import ImportGraph
from tests.harness.reach.recording import Recording

# Tests that one process runs first; to start workers takes about as long.
FIRST_SECONDS = 20.0
# Until tests are collected, in all processes.
START_SECONDS = 60.0
# The exit code of coreutils' `timeout`.
TOO_SLOW = 124


def main() -> int:
    """Chooses and runs; the exit code is pytest's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("since", nargs="?", default="HEAD", help="a commit")
    parser.add_argument("--list", action="store_true", help="only say which tests")
    parser.add_argument(
        "--slower", type=float, help="fail after so many times the recorded seconds"
    )
    arguments = parser.parse_args()
    changes = changes_since(arguments.since)
    try:
        recording = Recording()
    except FileNotFoundError:
        recording = None
    choice = choose(changes, ImportGraph(), recording)
    print(f"changed since {arguments.since}: {', '.join(c.path for c in changes)}")
    for note in choice.notes:
        print(note)
    ordered = in_order(choice, recording)
    for nearness, reason in enumerate(REASONS):
        found = [
            t for t, n in {**choice.files, **choice.tests}.items() if n == nearness
        ]
        files = len({name.partition("::")[0] for name in found})
        if found:
            print(f"{len(found):>6} in {files} files: {reason}")
    if arguments.list:
        print("\n".join(ordered))
        return 0
    most = None
    if arguments.slower and recording:
        expected = sum(recording.seconds[test] for test in choice.tests)
        most = arguments.slower * (expected + START_SECONDS)
    return run(ordered, choice, recording, most) if ordered else 0


def in_order(choice: Choice, recording: Recording | None) -> list[str]:
    """The files of the chosen tests, nearest first, quick ones before slow ones."""
    keys: dict[str, tuple[float, ...]] = {f: (n,) for f, n in choice.files.items()}
    best: dict[str, tuple[float, ...]] = {}
    for test, nearness in choice.tests.items():
        assert recording is not None
        key = (nearness, recording.seconds[test] + 0.02 * recording.breadth(test))
        file = test.partition("::")[0]
        best[file] = min(key, best.get(file, key))
    keys |= {f: min(k, keys.get(f, k)) for f, k in best.items()}
    return sorted(keys, key=lambda file: (keys[file], file))


def run(
    ordered: list[str],
    choice: Choice,
    recording: Recording | None,
    seconds: float | None = None,
) -> int:
    """Runs the nearest files in one process, then the others in several.

    Args:
        ordered: The files, nearest first.
        choice: Which of their tests.
        recording: How long these take.
        seconds: What is allowed, for each of the two; None for as long as it takes.

    Returns:
        pytest's exit code; that of `timeout` where time was up.
    """
    first = _first(ordered, choice, recording)
    others = [file for file in ordered if file not in first]
    # A worker that dies has failed; xdist would start another one and wait for ever.
    spread = ["-n", "auto", "--max-worker-restart=0"]
    for files, how in ((first, ["-p", "no:xdist"]), (others, spread)):
        try:
            code = _pytest(files, choice, recording, how, seconds) if files else 0
        except subprocess.TimeoutExpired:
            return TOO_SLOW
        # None was collected where all of the chosen are gone, or thorough.
        if code not in (0, 5):
            return code
    return 0


def _first(
    ordered: list[str], choice: Choice, recording: Recording | None
) -> list[str]:
    if recording is None:
        return ordered[:1]
    seconds: dict[str, float] = {}
    for test in choice.tests:
        file = test.partition("::")[0]
        seconds[file] = seconds.get(file, 0.0) + recording.seconds[test]
    taken, total = [], 0.0
    for file in ordered:
        total += seconds.get(file, 1.0)
        if taken and total > FIRST_SECONDS:
            break
        taken.append(file)
    return taken


def _pytest(
    files: list[str],
    choice: Choice,
    recording: Recording | None,
    how: list[str],
    seconds: float | None,
) -> int:
    known = list(recording.seconds) if recording else []
    wanted = {"tests": choice.tests, "files": choice.files, "known": known}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(wanted, file)
        file.flush()
        there = [name for name in files if (ROOT / name).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not thorough"]
        plugins = ["-p", "tests.harness.reach.select", "-p", "no:randomly"]
        spread = ["--dist", "loadfile", "--no-loadscope-reorder"] if "-n" in how else []
        return subprocess.run(
            [*command, *plugins, *how, *spread, f"--chosen={file.name}", *there],
            cwd=ROOT,
            timeout=seconds,
        ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
