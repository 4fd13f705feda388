"""Records what each test executes: `python -m tests.harness.reach.record`.

It runs the quick tests under coverage.py, with a context for each test, for each
fixture that several tests share and for each stage, also in the processes that they
start. The recording lies in `.reach/`, beside a copy of the sources that it speaks of.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.harness import stages

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".reach"
SOURCES = "sources"
DATA = "coverage"
ITEMS = "items.json"
MEASURED = (*stages.PRODUCT, "transbeam", "tests")
# The context of whatever a child process executes.
CONTEXT = "TRANSBEAM_REACH_CONTEXT"
TARGET = "TRANSBEAM_REACH"
SETTINGS = f"""\
[run]
data_file = FOLDER/{DATA}
parallel = true
sigterm = true
concurrency = thread, multiprocessing
context = ${{{CONTEXT}}}
include =
INCLUDE
"""


def main() -> int:
    """Runs the tests and leaves a whole recording, or the one that was there."""
    building = FOLDER.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    (building / SOURCES).mkdir(parents=True)
    for file in measured_files():
        copy = building / SOURCES / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    include = "\n".join(f"    {ROOT / name}/*" for name in MEASURED)
    settings = SETTINGS.replace("FOLDER", str(building)).replace("INCLUDE", include)
    (building / "coveragerc").write_text(settings, "utf-8")
    tests = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile"]
    plugin = ["-p", "tests.harness.reach.record", "-m", "not thorough", "-q"]
    fresh = {TARGET: str(building), "TRANSBEAM_STAGES": str(building / "stages")}
    code = subprocess.run(
        [*tests, *plugin, *sys.argv[1:]], cwd=ROOT, env={**os.environ, **fresh}
    ).returncode
    items: dict[str, Any] = {"tests": {}, "opened": {}}
    for file in building.glob("items-*.json"):
        found = json.loads(file.read_text("utf-8"))
        for name in items:
            items[name] |= found[name]
    if not items["tests"]:
        return code or 1
    text = json.dumps({"root": str(ROOT), **items})
    (building / ITEMS).write_text(text, "utf-8")
    settings_file = f"--rcfile={building / 'coveragerc'}"
    combine = [sys.executable, "-m", "coverage", "combine", "-q", settings_file]
    subprocess.run(combine, cwd=ROOT, check=True, env={**os.environ, CONTEXT: ""})
    shutil.rmtree(building / "stages", ignore_errors=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    building.rename(FOLDER)
    print(f"{len(items['tests']):,} tests are recorded in {FOLDER.name}/")
    return 0


def measured_files() -> list[Path]:
    """The Python files of the product and of the tests."""
    return [file for name in MEASURED for file in (ROOT / name).rglob("*.py")]


class Recorder:
    """Keeps contexts apart: of each test, each shared fixture and each stage."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.folder, self.worker = folder, worker
        os.environ[CONTEXT] = ""
        self.coverage = coverage.Coverage(config_file=str(folder / "coveragerc"))
        self.context = ""
        self.number = 0
        # The contexts in which lie the fixtures and stages that one has used.
        self.used: dict[str, set[str]] = defaultdict(set)
        self.opened: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.fixtures: dict[int, str] = {}

    def pytest_sessionstart(self) -> None:
        self.coverage.start()
        os.environ["COVERAGE_PROCESS_START"] = str(self.folder / "coveragerc")
        sys.addaudithook(self._notice)
        stages.on_use[0] = lambda name: self.within(f"stage {name}")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        tests = {
            name: {"seconds": seconds, "contexts": sorted(self._reached(name))}
            for name, seconds in self.seconds.items()
        }
        opened = {name: sorted(files) for name, files in self.opened.items()}
        text = json.dumps({"tests": tests, "opened": opened})
        (self.folder / f"items-{self.worker}.json").write_text(text, "utf-8")

    @contextmanager
    def within(self, context: str) -> Iterator[None]:
        """Records everything inside as another context, which counts as used."""
        before = self.context
        self.used[before].add(context)
        self._switch(context)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, context: str) -> None:
        self.context = os.environ[CONTEXT] = context
        self.coverage.switch_context(context)

    def _reached(self, name: str) -> set[str]:
        found, waiting = {name}, [name]
        while waiting:
            new = self.used[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._switch(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.number += 1
        context = f"fixture {fixturedef.argname} {self.worker}-{self.number}"
        self.fixtures[id(fixturedef)] = context
        with self.within(context):
            return (yield)

    def pytest_runtest_teardown(self, item: Any) -> None:
        info = getattr(item, "_fixtureinfo", None)
        definitions = info.name2fixturedefs.values() if info else ()
        used = {self.fixtures.get(id(one[-1])) for one in definitions if one}
        self.used[item.nodeid] |= used - {None}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notes the project's files that are opened and are no Python."""
        if event != "open" or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.path.abspath(arguments[0])
        within = path.removeprefix(f"{ROOT}{os.sep}")
        if within != path and within[0] != "." and not within.endswith((".py", ".pyc")):
            self.opened[self.context].add(within)


def pytest_configure(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    alone = not config.getoption("numprocesses", None)
    if TARGET in os.environ and (worker or alone):
        recorder = Recorder(Path(os.environ[TARGET]), worker or "alone")
        config.pluginmanager.register(recorder, "transbeam-recorder")


if __name__ == "__main__":
    raise SystemExit(main())
