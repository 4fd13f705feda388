"""The import graph of the project, with imports by name at run time."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[3]
PACKAGES = ("transbeam", "tests", "docs")
COMMAND = "transbeam.__main__"
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
        self.loaded_by_name: set[str] = set()
        known = {m for m in self._graph.modules if m.split(".")[0] in PACKAGES}
        for module in known:
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
        path = self.root / module.replace(".", "/")
        package = path / "__init__.py"
        file = package if package.exists() else path.with_suffix(".py")
        # A room stands where its link in `transbeam/` points to.
        return str(file.resolve().relative_to(self.root.resolve()))

    def _named(self, module: str, known: set[str]) -> Iterator[str]:
        """Lists what a module imports beside its import statements."""
        source = (self.root / self.file(module)).read_bytes()
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
