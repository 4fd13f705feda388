"""A pytest plugin: what a run of the tests was spent on, in its last lines.

It says how much of the time was setup, how often each kind of export was built, and of
the tests that were skipped how many for which reason. `--report-file` keeps it as JSON,
with the seconds of each test.
"""

import json
import os
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import stages

# Lines that a worker adds to its report of a test: what the test exported by itself.
EXPORTS = "exports"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--report-file", type=Path, help="where to keep the report as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        return
    os.environ[stages.RUN] = uuid.uuid4().hex
    os.environ[stages.KEY] = stages.key_of_now()
    stages.tidy()
    config.pluginmanager.register(Report(config), "transbeam-report")


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class Report:
    """Adds up what the workers tell."""

    def __init__(self, config: pytest.Config) -> None:
        self.file: Path | None = config.getoption("--report-file")
        self.seconds: dict[str, dict[str, float]] = defaultdict(dict)
        self.outcomes: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.exports: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid][report.when] = report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        for name, value in report.user_properties:
            if name == EXPORTS and report.when == "teardown":
                self.exports[value] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.changed = stages.changed()
        if self.changed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        say = terminalreporter.write_line
        terminalreporter.section("where the time went")
        for line in self.lines():
            say(line)
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.as_json(), indent=1), "utf-8")

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        phases = self.phases()
        total = sum(phases.values()) or 1.0
        shares = ", ".join(
            f"{phase} {seconds / 60:.1f} min ({seconds / total:.0%})"
            for phase, seconds in phases.items()
        )
        yield f"{len(self.seconds):,} tests, {total / 60:.1f} minutes of them: {shares}"
        for made in self.made():
            times = "once" if made["times"] == 1 else f"{made['times']} times"
            yield f"stage {made['stage']}: built {times}, {made['seconds']:.1f} s"
        if self.exports:
            by = f"{len(self.exports)} tests for themselves"
            yield f"{self.exports.total()} SavedModels were written by {by}, most by"
            yield from (f"    {n}: {c}" for n, c in self.exports.most_common(3))
        for reason, count in self.skipped.most_common():
            yield f"skipped {count}: {reason}"
        for name in self.changed:
            yield f"ERROR: a test wrote into a shared stage: {name}"

    @staticmethod
    def made() -> list[dict[str, Any]]:
        """The stages that this run has built, and how often: once, if all is well."""
        found = stages.built(os.environ[stages.RUN])
        times = Counter(made["stage"] for made in found)
        return [made | {"times": times[made["stage"]]} for made in found]

    def phases(self) -> dict[str, float]:
        """Seconds of all setups, all calls and all teardowns."""
        return {
            phase: sum(parts.get(phase, 0.0) for parts in self.seconds.values())
            for phase in ("setup", "call", "teardown")
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "outcomes": self.outcomes,
            "phases": self.phases(),
            "skipped": self.skipped,
            "stages": self.made(),
            "exports": self.exports,
            "tests": self.seconds,
        }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes which test is at work, for the count of exports."""
    _at_work[:] = [item]
    return (yield)


def pytest_runtest_setup() -> None:
    _count_exports()


def pytest_runtest_call() -> None:
    _count_exports()


_at_work: list[pytest.Item] = []


def _count_exports() -> None:
    """Has Keras's archive tell of each SavedModel, once somebody has imported it."""
    module = sys.modules.get("keras.src.export.saved_model_export_archive")
    if module is None or hasattr(module, "_counted"):
        return
    archive = module.SavedModelExportArchive
    write_out = archive.write_out

    def counted(self: Any, *args: Any, **options: Any) -> None:
        if _at_work and not stages.making:
            name = _at_work[0].nodeid.partition("[")[0]
            _at_work[0].user_properties.append((EXPORTS, name))
        write_out(self, *args, **options)

    archive.write_out = counted
    module._counted = True


def main() -> None:
    """Prints what reports add up to: `python -m tests.harness.report FILE...`."""
    skipped: Counter[str] = Counter()
    for name in sys.argv[1:]:
        report = json.loads(Path(name).read_text("utf-8"))
        minutes = sum(report["phases"].values()) / 60
        tests = len(report["tests"])
        print(f"{Path(name).stem}: {tests:,} tests, {minutes:.1f} minutes of them")
        skipped.update(report["skipped"])
    # A promise whose test was skipped is not held here.
    for reason, count in skipped.most_common():
        print(f"SKIPPED {count}: {reason}")


if __name__ == "__main__":
    main()
