"""Puts each mutant to the quick tests: `python -m bench.mutation.run`.

Needs a recording (`make test-record`), as each mutant is put to the tests that executed
the mutated function, nearest first, until one fails; one that none of them finds, where
JAX runs what it changes, to the quick tests on JAX. Mutants live in a copy of the
commit, never in the working tree. Each answer is a line of `--results` as soon as it is
known; a second call goes on behind it. With `--table` the answers are printed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.mutation.draw import ROOT, Mutant
from tests.harness.parts import PARTS

HERE = Path(__file__).parent
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
CHOSEN = re.compile(r"^ +(\d+) in \d+ files: ", re.MULTILINE)
# A mutant that runs so many times as long as the clean code is one that was found.
SLOWER = 3
# Rooms that run on JAX as well.
ON_JAX = ("model/", "trainer/")


def main() -> None:
    """Runs what has no answer yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=Path, default=HERE / "mutants.jsonl")
    parser.add_argument("--results", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--commit", default="HEAD", help="whose tests are asked")
    parser.add_argument("--table", action="store_true", help="only print the answers")
    arguments = parser.parse_args()
    lines = arguments.mutants.read_text("utf-8").splitlines()
    mutants = [Mutant(**json.loads(line)) for line in lines]
    answers = read_answers(arguments.results)
    if not arguments.table:
        with copy_of_commit(arguments.commit) as folder:
            for number, mutant in enumerate(mutants):
                if number in answers:
                    continue
                if mutant.fits(folder):
                    answers[number] = ask(folder, mutant) | {"mutant": number}
                    with arguments.results.open("a", encoding="utf-8") as results:
                        results.write(json.dumps(answers[number]) + "\n")
                    print(row(mutant, answers[number]), flush=True)
                else:
                    place = f"{mutant.path}:{mutant.line}"
                    print(f"{place}: not asked, the code is another now", flush=True)
    else:
        print("\n".join(row(mutants[n], answers[n]) for n in sorted(answers)))
    found = sum(answer["killed"] for answer in answers.values())
    print(f"{found} of {len(answers)} mutants are found")


def read_answers(results: Path) -> dict[int, dict]:
    """Reads the answers of earlier runs, by the mutant's number."""
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return {answer["mutant"]: answer for answer in map(json.loads, lines)}


@contextmanager
def copy_of_commit(commit: str) -> Iterator[Path]:
    """A working tree of a commit, with the recording that lies in this one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "tree"
        tree = ["git", "worktree", "add", "--detach", "--quiet", str(folder), commit]
        subprocess.run(tree, cwd=ROOT, check=True)
        try:
            shutil.copytree(ROOT / ".reach", folder / ".reach")
            yield folder
        finally:
            remove = ["git", "worktree", "remove", "--force", str(folder)]
            subprocess.run(remove, cwd=ROOT, check=True)


def ask(folder: Path, mutant: Mutant) -> dict:
    """Puts a mutant to the quick tests: found or not, by which, after how long."""
    file = folder / mutant.path
    clean = file.read_bytes()
    file.write_bytes(mutant.apply(clean))
    began = time.monotonic()
    try:
        done = _run(folder, ["-m", "tests.harness.reach", f"--slower={SLOWER}"], {})
        chosen = sum(map(int, CHOSEN.findall(done.stdout)))
        if done.returncode == 0 and mutant.path.startswith(ON_JAX):
            part = PARTS["jax"]
            tests = ["-m", "pytest", "-x", "-n", "auto", "--dist", "loadfile"]
            tests += ["-m", "not thorough", *part.paths]
            done = _run(folder, tests, part.environment)
    finally:
        file.write_bytes(clean)
    by = FAILED.search(done.stdout)
    killed = done.returncode != 0
    return {
        "killed": killed,
        "seconds": round(time.monotonic() - began, 1),
        "chosen": chosen,
        "by": by[1] if by else f"exit code {done.returncode}" * killed,
        "said": "" if by else done.stdout[-500:],
    }


def _run(
    folder: Path, words: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    # The copy's code comes before what is installed, in child processes, too.
    variables = {**os.environ, "PYTHONPATH": str(folder), **environment}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )


def row(mutant: Mutant, answer: dict) -> str:
    """A line of a table in Markdown."""
    fault = f"`{mutant.before[:50]}` → `{mutant.after[:50]}`".replace("\n", " ")
    verdict = "found" if answer["killed"] else "**survived**"
    where = f"{mutant.path}:{mutant.line}"
    return (
        f"| {mutant.group} | {where} | {mutant.kind} | {fault} | {verdict} "
        f"| {answer.get('chosen', '')} | {answer['by']} | {answer['seconds']:.0f} s |"
    )


if __name__ == "__main__":
    main()
