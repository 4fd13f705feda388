"""Commands that only read a configuration answer at once: nothing heavy is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
HEAVY = {"tensorflow", "keras", "numpy", "apache_beam", "rich", "jax", "torch"}


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["check", "configs/demo.yaml"],
        ["explain"],
        ["explain", "model", "--json"],
        ["run", "--help"],
        ["run", "no such file.yaml"],
    ],
    ids=" ".join,
)
def test_light_commands_import_nothing_heavy(argv):
    # `-X importtime` writes `import time: 12 | 34 | name` for every module.
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "transbeam", *argv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in result.stderr.splitlines() if line.count("|") == 2]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "transbeam" in imported
    assert not imported & HEAVY


def test_configs_needs_the_standard_library_and_yaml_only():
    program = (
        "import importlib, pkgutil, sys, yaml\n"
        "before = set(sys.modules)\n"
        "from transbeam import configs as room\n"
        "for module in pkgutil.walk_packages(room.__path__, f'{room.__name__}.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(result.stdout.split()) - sys.stdlib_module_names == {"transbeam"}
