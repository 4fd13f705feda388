"""The floors of every room: small folders, without circles."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.docs import ROOT

ROOMS = ("configs", "pipeline", "model", "trainer", "serving")
MOST_FILES = 25


@pytest.fixture(scope="module")
def imports() -> set[tuple[str, str]]:
    """Imports by full names, with those inside functions."""
    graph = grimp.build_graph("transbeam")
    return {
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }


def folders(*tops: str) -> Iterator[Path]:
    for top in tops:
        found = [ROOT / top, *(ROOT / top).rglob("*")]
        yield from (p for p in found if p.is_dir() and p.name != "__pycache__")


def test_no_folder_has_too_many_files():
    sizes = {
        str(folder.relative_to(ROOT)): len(list(folder.glob("*.py")))
        for folder in folders(*ROOMS, "tests")
    }
    assert {name: n for name, n in sizes.items() if n > MOST_FILES} == {}


def test_no_folder_and_its_parents_files_import_each_other(imports):
    """Circles of siblings are import-linter's to find: see `pyproject.toml`."""
    down, up = defaultdict(set), defaultdict(set)
    for importer, imported in imports:
        above, below = importer.rpartition(".")[0], imported.rpartition(".")[0]
        if below.startswith(f"{above}."):
            down[above, below].add((importer, imported))
        if above.startswith(f"{below}."):
            up[below, above].add((importer, imported))
    mutual = {pair: sorted(up[pair] | down[pair]) for pair in {*up} & {*down}}
    assert mutual == {}


def test_an_init_file_has_a_docstring_alone():
    """A name is imported from where it is defined."""
    with_code = [
        str(file.relative_to(ROOT))
        for room in ROOMS
        for file in (ROOT / room).rglob("__init__.py")
        if _code_lines(file.read_text("utf-8"))
    ]
    assert with_code == []


def _code_lines(source: str) -> int:
    body = ast.parse(source).body
    return len([node for node in body if not _is_text(node)])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_no_file_has_the_name_of_a_folder_beside_it():
    names = Counter(
        str(path.with_suffix("").relative_to(ROOT))
        for folder in folders(*ROOMS)
        for path in folder.iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    )
    assert [name for name, number in names.items() if number > 1] == []


def test_names_are_imported_from_where_they_are_defined():
    """No file hands on the names of another."""
    trees = {
        _module(file): ast.parse(file.read_text("utf-8"))
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
    }
    handed_on = [
        f"{module}: {name.name} of {node.module}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in trees
        for name in node.names
        if name.name not in _defined(trees[node.module])
        and f"{node.module}.{name.name}" not in trees
    ]
    assert handed_on == []


def _module(file: Path) -> str:
    path = file.relative_to(ROOT).with_suffix("")
    return ".".join(["transbeam", *path.parts]).removesuffix(".__init__")


def _defined(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Assign(targets=targets):
                names = (x for target in targets for x in ast.walk(target))
                found |= {x.id for x in names if isinstance(x, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found
