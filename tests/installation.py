"""Uses the package as its users do: `python -m tests.installation`.

A wheel is built of the source distribution and installed into an environment of its
own, which shares only the dependencies with the project's. There it is used from a
folder whose files are called as our rooms are, and raise when they are imported.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.docs import ROOT
from tests.small_run import YAML, write_corpus

ROOMS = ("configs", "pipeline", "model", "trainer", "serving")
SOURCES = ("transbeam", *ROOMS, "setup.py", "pyproject.toml", "README.md")
# The first has workers that are processes, which for so little would be threads.
COMMANDS = (
    "transbeam data small.yaml --workers 2 -- --direct_running_mode=multi_processing",
    "transbeam run small.yaml --set export.tflite=[]",
    "python -m transbeam.trainer --help",
    "python program.py",
)
# The folder of a script comes first on the path.
PROGRAM = """
import sys

import transbeam
from transbeam.model.build import build_model
from transbeam.pipeline.beam.job import run_job
from transbeam.serving.export_stage import export
from transbeam.trainer.run import train

print(transbeam.__file__)
assert transbeam.__file__.startswith(sys.prefix)
try:
    import model
except RuntimeError:
    pass
else:
    raise SystemExit("model.py hides nothing here, so this shows nothing")
"""


def main() -> int:
    """Builds, installs and uses the package; the first failure ends it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = install(build(folder), folder)
        user = user_folder(folder)
        for command in COMMANDS:
            run(shlex.split(command), user, python)
    return 0


def build(folder: Path) -> Path:
    """Builds the source distribution as Beam's `--setup_file` does, and its wheel."""
    source, built = folder / "source", folder / "built"
    source.mkdir()
    for name in SOURCES:
        _copy(ROOT / name, source / name)
    run(["python", "setup.py", "-q", "sdist", "--dist-dir", str(built)], source)
    (archive,) = built.glob("*.tar.gz")
    # A link would point to where a worker has nothing.
    with tarfile.open(archive) as members:
        assert not [member.name for member in members if not _is_plain(member)]
    wheels = ["python", "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir"]
    run([*wheels, str(built), str(archive)], folder)
    (wheel,) = built.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Installs a wheel into a new environment, and returns its Python."""
    environment = folder / "environment"
    venv.create(environment)
    python = environment / "bin/python"
    (libraries,) = environment.glob("lib/python*/site-packages")
    # Of the other environment only the folder: its own .pth files, by which the project
    # is installed there, are not read.
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    pip = ["python", "-m", "pip", "--python", str(python), "install", "-q"]
    run([*pip, "--no-deps", "--no-index", str(wheel)], folder)
    return python


def user_folder(folder: Path) -> Path:
    """Makes a small run, beside files of all our rooms' names."""
    user = folder / "user"
    user.mkdir()
    for room in ROOMS:
        (user / f"{room}.py").write_text("raise RuntimeError('of the user')", "utf-8")
    write_corpus(user / "corpus")
    (user / "small.yaml").write_text(YAML.replace("PATH", "'corpus/*.txt'"), "utf-8")
    (user / "program.py").write_text(PROGRAM, "utf-8")
    return user


def run(command: Sequence[str], folder: Path, python: Path | None = None) -> None:
    """Runs a command in a folder, with an environment's programs.

    Args:
        command: The words of the command.
        folder: The working directory.
        python: The environment's; by default this process's.
    """
    programs = Path(python or sys.executable).parent
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    variables = {**os.environ, "PATH": path}
    variables.pop("PYTHONPATH", None)
    began = time.monotonic()
    print(f"\n$ {shlex.join(command)}", flush=True)
    subprocess.run(command, cwd=folder, env=variables, check=True)
    print(f"({time.monotonic() - began:.0f} s)", flush=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        cache = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, symlinks=True, ignore=cache)
    else:
        shutil.copy(source, target)


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isfile() or member.isdir()


if __name__ == "__main__":
    raise SystemExit(main())
