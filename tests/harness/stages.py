"""Finished folders that many tests start from, made once for each state of the code.

An export takes from ten seconds to a minute, and most tests of one only read it.
`stage` makes such a folder the first time that it is asked for and hands it out from
then on: to all tests, to all workers, and to later runs while nothing changes that it
is made of.

Folders lie in `.stages/KEY/`. The key is a hash of every product file, of the helpers
of the tests, of the pinned packages, of Python and of the processor's features, so no
folder of other code is ever found. They are for reading: a test that writes works on a
copy. `make clean` removes them.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("TRANSBEAM_STAGES", ROOT / ".stages"))
PRODUCT = ("configs", "pipeline", "model", "trainer", "serving")
# Of states of the code; in a young one another run may still be at work.
KEPT = 3
YOUNG = 3600.0  # seconds
# Names a run of the tests, and its stages' key, in all of its workers.
RUN = "TRANSBEAM_TEST_RUN"
KEY = "TRANSBEAM_STAGES_KEY"

# Of this process.
making: list[str] = []
# A context that each use of a stage happens in; given the stage's name.
on_use: list[Callable[[str], AbstractContextManager[None]]] = [nullcontext]


def stage(name: str, make: Callable[[Path], None], root: Path | None = None) -> Path:
    """Returns a finished folder, which `make` fills if nobody has yet.

    Whoever asks meanwhile waits. A `make` that fails leaves nothing behind.

    Args:
        name: What the folder holds, such as `export-causal`; one name, one content.
        make: Fills the folder that it is given, which is new and empty.
        root: Where the folder is to lie; by default `.stages` and the key.
    """
    root, name = root or FOLDER / key(), name + _maker(make)
    folder, done = root / name, root / f"{name}.done"
    with _locked(root / f"{name}.lock"), on_use[0](name):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            began = time.monotonic()
            making.append(name)
            try:
                make(folder)
            finally:
                making.remove(name)
            _protect(folder)
            done.write_text(json.dumps(_contents(folder)), "utf-8")
            _log(root, name, time.monotonic() - began)
    return folder


def copy_of(folder: Path, target: Path) -> Path:
    """Copies a stage, or a folder of one, for a test that writes."""
    shutil.copytree(folder, target)
    for path in target.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode | 0o200)
    return target


def changed(root: Path | None = None) -> list[str]:
    """The files of finished stages that are not as they were when they were made."""
    root = root or FOLDER / key()
    found = []
    for done in sorted(root.glob("*.done")):
        folder, made = done.with_suffix(""), json.loads(done.read_text("utf-8"))
        now = _contents(folder)
        names = {name for name in {*made, *now} if made.get(name) != now.get(name)}
        found += [f"{folder.name}/{name}" for name in sorted(names)]
    return found


def built(run: str, root: Path | None = None) -> list[dict]:
    """The stages that a run of the tests has made, with the seconds that each took."""
    log = (root or FOLDER / key()) / "built.jsonl"
    if not log.exists():
        return []
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return [line for line in lines if line["run"] == run]


def tidy(root: Path = FOLDER) -> None:
    """Removes the folders of older states of the code, but for the latest few."""
    folders = sorted(root.glob("*/"), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-KEPT]:
        if time.time() - folder.stat().st_mtime > YOUNG:
            shutil.rmtree(folder, ignore_errors=True)


def key() -> str:
    """The name of this state of the code; the same in all workers of a run."""
    return os.environ.get(KEY) or key_of_now()


@cache
def key_of_now() -> str:
    """Hashes all that a finished stage can depend on."""
    files = [
        *(file for room in PRODUCT for file in (ROOT / room).rglob("*")),
        *(file for file in (ROOT / "tests").rglob("*") if _is_helper(file)),
        *(ROOT / "transbeam").glob("*.py"),
        ROOT / "setup.py",
        ROOT / "constraints.txt",
    ]
    total = hashlib.sha256()
    for file in sorted(files):
        if file.is_file() and "__pycache__" not in file.parts:
            total.update(f"{file.relative_to(ROOT)}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    total.update(f"{sys.version}\0{_processor()}".encode())
    return total.hexdigest()[:16]


def _is_helper(file: Path) -> bool:
    return not file.name.startswith("test_")


def _maker(make: Callable[[Path], None]) -> str:
    """A hash of the test's file that makes a stage; helpers are in the key."""
    file = Path(make.__code__.co_filename)
    if _is_helper(file):
        return ""
    return f"-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"


def _processor() -> str:
    """The processor's features, on which the rounding of products depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), "")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _contents(folder: Path) -> dict[str, list[int]]:
    """Size and time of each file below a folder."""
    return {
        str(path.relative_to(folder)): [path.stat().st_size, path.stat().st_mtime_ns]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _protect(folder: Path) -> None:
    """Lets nobody write into files; what root writes all the same, `changed` finds."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode & ~0o222)


def _log(root: Path, name: str, seconds: float) -> None:
    line = {"stage": name, "seconds": round(seconds, 1), "run": os.environ.get(RUN)}
    with (root / "built.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
