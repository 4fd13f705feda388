"""Contents of an ordinary installation, not an editable one."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs import ROOT

ROOMS = ["configs", "pipeline", "model", "trainer", "serving"]


def test_every_file_of_every_room_is_installed(tmp_path: Path) -> None:
    ours = {
        path.relative_to(ROOT)
        for room in ROOMS
        for pattern in ("*.py", "*.yaml", "templates/**/*.*", "assets/*.*")
        for path in (ROOT / room).rglob(pattern)
    }
    source, installed = tmp_path / "source", tmp_path / "installed"
    for file in [*ours, *map(Path, ("setup.py", "README.md"))]:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source / file)
    shutil.copytree(ROOT / "transbeam", source / "transbeam", symlinks=True)

    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", installed],
        cwd=source,
        check=True,
    )

    there = {path.relative_to(installed) for path in installed.rglob("*.*")}
    command = {path.relative_to(ROOT) for path in (ROOT / "transbeam").glob("*.py")}
    assert there == {*(Path("transbeam") / file for file in ours), *command}
