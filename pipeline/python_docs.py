"""The docstrings of installed packages: English technical prose on every machine.

Packages are found by name and their files parsed with `ast`; none of their code runs.
"""

import ast
import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

from configs.sources import PythonDocsSource
from configs.errors import DataError
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Rejected
from pipeline.spans import SourceFile

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def list_files(source: PythonDocsSource) -> list[SourceFile]:
    """The `.py` files of the packages, named from the package on.

    Raises:
        DataError: A package is not installed.
    """
    return [
        SourceFile.at(path, path.relative_to(folder.parent).as_posix())
        for package in source.packages
        for folder in _package_folders(package)
        for path in folder.rglob("*.py")
        if path.is_file()
    ]


def _package_folders(package: str) -> list[Path]:
    # Dotted names would make Python import the parent package.
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"data.source.packages: {package!r} is not an installed top-level package. "
            "Install it or take it off the list"
        )
    return [Path(folder) for folder in spec.submodule_search_locations]


def read(file: SourceFile) -> Iterator[Document | Rejected]:
    """Each docstring as a document at its line, or the file as `Rejected`."""
    raw = Path(file.path).read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes
            tree = ast.parse(raw)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield Rejected("not Python that parses", file.name, 0, excerpt(str(error)))
        return
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield Document(text, file.name, getattr(node, "lineno", 1))
