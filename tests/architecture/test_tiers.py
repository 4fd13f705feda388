"""Thorough tests name the quick ones that hold the same in smaller."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAME = re.compile(r"\btest_\w+")


FILES = {file: ast.parse(file.read_text("utf-8")) for file in TESTS.rglob("test_*.py")}


def is_thorough(node: ast.AST) -> bool:
    """Is it `pytest.mark.thorough`, called or not?"""
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Attribute) and node.attr == "thorough"


def named(mark: ast.AST) -> set[str]:
    """The tests that the mark's argument names."""
    if not isinstance(mark, ast.Call):
        return set()
    (value,) = [*mark.args, *[keyword.value for keyword in mark.keywords]]
    return set(NAME.findall(ast.literal_eval(value)))


def marked(tree: ast.Module) -> tuple[set[str], list[ast.AST]]:
    """A file's quick tests, and the marks of the others: its own or those of each."""
    quick, marks = set(), []
    everything = False
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "pytestmark"
        ):
            values = (
                node.value.elts if isinstance(node.value, ast.List) else [node.value]
            )
            marks += filter(is_thorough, values)
            everything = bool(marks)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            own = [mark for mark in node.decorator_list if is_thorough(mark)]
            marks += own
            quick |= set() if own else {node.name}
    return set() if everything else quick, marks


def test_thorough_tests_name_quick_ones_that_exist():
    found = {file.relative_to(TESTS): marked(tree) for file, tree in FILES.items()}
    quick = set().union(*(names for names, _ in found.values()))
    wrong = [
        f"{file}:{mark.lineno}: {ast.unparse(mark)}"
        for file, (_, marks) in found.items()
        for mark in marks
        if not named(mark) or not named(mark) <= quick
    ]
    assert not wrong, "thorough(instead='test_x') must name tests that are quick"


def test_every_promise_has_quick_tests():
    page = (TESTS.parent / "docs/explanation/promises.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \|$", page, re.MULTILINE)[1:]
    quick = {file for file, tree in FILES.items() if marked(tree)[0]}
    assert rows
    for row in rows:
        paths = re.findall(r"`(tests/[\w/.]+)`", row)
        assert paths, row
        for path in paths:
            place = TESTS.parent / path
            assert place in quick or any(place in file.parents for file in quick), path
