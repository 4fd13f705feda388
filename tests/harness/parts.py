"""The thorough tier in parts: `python -m tests.harness.parts [PART ...]`.

Each part runs all tests of some folders, the thorough ones too, and leaves a report in
`.test-reports/`. Parts can be run on different days: at the end stands a table of all
reports of this commit, and what their counts add up to. Every test is in one part and
no other; a folder that no part names is found when the whole is counted.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / ".test-reports"
PHONE_PYTHON = ROOT / ".venv-phone/bin/python"
STUDIO_PYTHON = ROOT / ".venv-studio/bin/python"
# Settings of a run on JAX: docs of them stand in the Makefile.
JAX = {
    "KERAS_BACKEND": "jax",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true",
}


@dataclass(frozen=True)
class Part:
    """A share of the thorough tier.

    Attributes:
        paths: Files and folders; those that another part names more closely are its.
        environment: Variables that its tests are run with.
        suite: What it is a share of: counts of parts add up to that of their suite.
    """

    paths: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    suite: str = "tensorflow"


PARTS = {
    "foundation": Part(
        ("tests/configs", "tests/architecture", "tests/harness", "transbeam/configs")
    ),
    "pipeline": Part(("tests/pipeline", "transbeam/pipeline")),
    "model": Part(("tests/model", "tests/contracts", "transbeam/model")),
    "trainer": Part(("tests/trainer", "transbeam/trainer")),
    "serving": Part(("tests/serving", "transbeam/serving")),
    "signatures": Part(("tests/serving/signatures", "tests/serving/parity")),
    "phone": Part(
        (
            "tests/serving/phone",
            "tests/serving/phone/test_presets.py",
            "tests/serving/runtimes/test_tflite_generator.py",
        ),
        {"TRANSBEAM_PHONE_PYTHON": str(PHONE_PYTHON)},
    ),
    "studio": Part(
        ("tests/serving/studio/test_page.py", "tests/serving/studio/test_try_page.py"),
        {"TRANSBEAM_STUDIO_PYTHON": str(STUDIO_PYTHON)},
    ),
    "e2e": Part(("tests/e2e",)),
    "jax": Part(
        (
            "tests/model",
            "tests/contracts",
            "tests/trainer/step/test_step.py",
            "tests/trainer/base/test_adaptation.py",
            "tests/trainer/distillation/test_distillation_loss.py",
            "tests/trainer/distribution/test_workers.py",
            "tests/trainer/optimizers",
            "transbeam/model",
        ),
        JAX,
        suite="jax",
    ),
}


def main() -> int:
    """Runs parts, then says what all reports of this commit add up to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    names = parser.parse_args().parts or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"{', '.join(unknown)}: no such part. Parts: {', '.join(PARTS)}")
    commit = _commit()
    for name in names:
        run(name, commit)
    return table(commit)


def run(name: str, commit: str) -> None:
    """Runs a part and leaves its report."""
    part, report = PARTS[name], REPORTS / f"{name}.json"
    report.unlink(missing_ok=True)
    print(f"\n=== {name}: {' '.join(part.paths)}", flush=True)
    began = time.monotonic()
    spread = ["-n", "auto", "--dist", "worksteal"]
    code = _pytest(part, [*spread, f"--report-file={report}"]).returncode
    found = json.loads(report.read_text("utf-8")) if report.exists() else {}
    found |= {
        "commit": commit,
        "code": code,
        "minutes": (time.monotonic() - began) / 60,
    }
    REPORTS.mkdir(exist_ok=True)
    report.write_text(json.dumps(found), "utf-8")


def table(commit: str) -> int:
    """Prints the reports of a commit; 0 if all parts are there, whole and green."""
    print(f"\n{'part':<12}{'tests':>7}{'failed':>8}{'skipped':>9}{'minutes':>9}")
    complete, failed = True, False
    counts: dict[str, int] = {}
    for name, part in PARTS.items():
        found = _report(name, commit)
        if found is None:
            complete = False
            print(f"{name:<12}not run at {commit}")
            continue
        outcomes, count = found.get("outcomes", {}), len(found.get("tests", {}))
        counts[part.suite] = counts.get(part.suite, 0) + count
        failed |= found["code"] != 0
        print(
            f"{name:<12}{count:>7,}{outcomes.get('failed', 0):>8}"
            f"{outcomes.get('skipped', 0):>9}{found['minutes']:>9.1f}"
        )
    if not complete:
        return int(failed)
    for suite, count in counts.items():
        whole = count_of(suite)
        print(f"{suite}: {count:,} tests in parts, {whole:,} in all, {commit}")
        failed |= whole != count
    return int(failed)


def count_of(suite: str) -> int:
    """Collects the tests of a suite, without regard to parts."""
    parts = [part for part in PARTS.values() if part.suite == suite]
    # All that pytest finds by itself; of JAX's, what its part names.
    paths = () if suite == "tensorflow" else parts[0].paths
    everything = Part(paths, parts[0].environment)
    done = _pytest(everything, ["--collect-only", "-q"], capture_output=True, text=True)
    return sum("::" in line for line in done.stdout.splitlines())


def _pytest(part: Part, options: list[str], **how: Any) -> subprocess.CompletedProcess:
    ignored = [f"--ignore={path}" for path in _of_others(part)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *ignored, *part.paths],
        cwd=ROOT,
        env={**os.environ, **part.environment},
        **how,
    )


def _of_others(part: Part) -> list[str]:
    """The paths below a part's own that another part of its suite has."""
    return [
        path
        for other in PARTS.values()
        if other is not part and other.suite == part.suite
        for path in other.paths
        if any(path.startswith(f"{own}/") for own in part.paths)
    ]


def _report(name: str, commit: str) -> dict[str, Any] | None:
    file = REPORTS / f"{name}.json"
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found if found.get("commit") == commit else None


def _commit() -> str:
    """The commit, with a mark where files differ from it."""
    described = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(described, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
