"""The tests' own importer: a loud library is imported when asked for, once, quietly."""

import importlib
import sys

import pytest

from tests.conftest import Quietly
from transbeam.configs.system import quiet_imports


@pytest.fixture
def loud(tmp_path, monkeypatch):
    """An importer of a package that is loud, and counts how often it is executed."""
    package = tmp_path / "a_loud_one"
    package.mkdir()
    (package / "inner.py").write_text("")
    (package / "__init__.py").write_text(
        "import os, sys\nos.write(2, b'noise')\n"
        "sys.executed = getattr(sys, 'executed', 0) + 1\nfrom a_loud_one import inner\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Quietly, "LOUD", {"a_loud_one": "a_loud_one"})
    monkeypatch.setattr(sys, "executed", 0, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Quietly(), *sys.meta_path])
    yield
    for name in ("a_loud_one", "a_loud_one.inner"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("first", ["a_loud_one", "a_loud_one.inner"])
def test_imported_once_and_quietly(loud, capfd, first):
    importlib.import_module(first)
    module = importlib.import_module("a_loud_one")
    assert (sys.executed, capfd.readouterr().err) == (1, "")
    assert module.inner is sys.modules["a_loud_one.inner"]
    assert not isinstance(module.__spec__.loader, Quietly)
    assert importlib.reload(module) is module


def test_does_not_wait_for_a_command_that_imports(loud):
    quiet_imports.quiet_import("a_loud_one")
    assert sys.executed == 1
