"""The import graph of the project, with imports by name at run time."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[3]
PACKAGES = ("configs", "pipeline", "model", "trainer", "serving", "tests")
COMMAND = "transbeam"
# A test that starts a process may reach all that the command does.
STARTS_PROCESSES = frozenset({"subprocess", "multiprocessing"})


class ImportGraph:
    """The project's modules, with the imports that are written as strings.

    Args:
        root: The folder of the packages.

    Attributes:
        loaded_by_name: The modules that `import_module` loads.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        first, *others = PACKAGES
        self._graph = grimp.build_graph(first, *others, include_external_packages=True)
        if COMMAND not in self._graph.modules:
            self._graph.add_module(COMMAND)
        self.loaded_by_name: set[str] = set()
        known = {m for m in self._graph.modules if m.split(".")[0] in PACKAGES}
        for module in [*known, COMMAND]:
            for imported in self._named(module, known):
                self._graph.add_import(importer=module, imported=imported)

    def importers(self, module: str) -> set[str]:
        """The modules that import one themselves."""
        if module not in self._graph.modules:
            return set()
        return self._graph.find_modules_that_directly_import(module)

    def reaching(self, module: str) -> set[str]:
        """The modules that import one, themselves or through others."""
        if module not in self._graph.modules:
            return set()
        return self._graph.find_downstream_modules(module)

    def file(self, module: str) -> str:
        """The path of a module, below the root."""
        name = module.replace(".", "/")
        package = f"{name}/__init__.py"
        return package if (self.root / package).exists() else f"{name}.py"

    def _named(self, module: str, known: set[str]) -> Iterator[str]:
        """Lists what a module imports beside its import statements."""
        source = (self.root / self.file(module)).read_bytes()
        if module == COMMAND:
            yield from _imports(source) & known
        direct = {
            m.split(".")[0]
            for m in self._graph.find_modules_directly_imported_by(module)
        }
        if module.startswith("tests.") and direct & STARTS_PROCESSES:
            yield COMMAND
        if b"import_module" in source:
            for pattern in _dynamic(source, module):
                found = {name for name in known if pattern.fullmatch(name)}
                self.loaded_by_name |= found
                yield from found
        # `conftest.py` is read for all tests below its folder.
        if module.startswith("tests."):
            above = module.split(".")[:-1]
            for length in range(1, len(above) + 1):
                conftest = ".".join([*above[:length], "conftest"])
                if conftest in known and conftest != module:
                    yield conftest


def _imports(source: bytes) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return found


def _dynamic(source: bytes, module: str) -> Iterator[re.Pattern[str]]:
    """A pattern for each name that is put together for `import_module`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, name = ast.unparse(node.func), node.args[0]
        if function.endswith("import_module") and isinstance(name, ast.JoinedStr):
            yield re.compile("".join(_pattern(part, module) for part in name.values))


def _pattern(part: ast.expr, module: str) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(part.value)
    if "__name__" in ast.unparse(part):
        return re.escape(module)
    return r"[\w.]+"
