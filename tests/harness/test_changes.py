"""A change is named by the functions that differ, and by what else runs on import."""

import subprocess

import pytest

from tests.harness.reach.changes import changes_since, compare, function_lines

BEFORE = b'''
LIMIT = 1

def first(a, b=2):
    """Says."""
    def inner():
        return b
    return inner() + a

class Box:
    size = 3

    def get(self):
        return self.size
'''


@pytest.mark.parametrize(
    ("old", "new", "functions", "elsewhere"),
    [
        (b"return b", b"return -b", {"first"}, False),
        (b"return self.size", b"return 0", {"Box.get"}, False),
        (b"LIMIT = 1", b"LIMIT = 2", set(), True),
        (b"size = 3", b"size = 4", set(), True),
        (b"b=2", b"b=3", {"first"}, True),
        (b"LIMIT = 1", b"LIMIT = 1  # said", set(), False),
        (b"def get", b"def got", {"Box.get", "Box.got"}, True),
        (b"LIMIT = 1", b"LIMIT = (", set(), True),
    ],
)
def test_what_differs(old, new, functions, elsewhere):
    assert old in BEFORE
    change = compare("a/b.py", BEFORE, BEFORE.replace(old, new))
    assert (change.functions, change.elsewhere) == (functions, elsewhere)
    assert change.module == "a.b"


def test_lines_are_those_of_bodies():
    lines = function_lines(BEFORE)
    assert {name: (part[0], part[-1]) for name, part in lines.items()} == {
        "first": (5, 8),
        "Box.get": (14, 14),
    }


def test_new_files_and_files_that_are_gone(tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    git("init", "-q")
    for name in ("gone.py", "same.py", "said.yaml"):
        (tmp_path / name).write_text("a: 1")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("a = 1")
    (tmp_path / "said.yaml").write_text("a: 2")
    changes = changes_since("HEAD", tmp_path)
    assert [change.path for change in changes] == ["gone.py", "new.py", "said.yaml"]
    assert all(change.elsewhere for change in changes)
