"""Reads the docstrings of installed packages: a corpus available on every machine.

Packages are found by name and their files parsed with `ast`; their code is not
executed. Besides docstrings as texts, documented functions can be read as a
sequence-to-sequence data set: the code as the text, the first paragraph of its
docstring as the target.
"""

import ast
import importlib.util
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.sources import PythonDocsSourceConfig
from transbeam.pipeline.documents.document import (
    Document,
    Rejected,
    SourceFile,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.files.file_access import open_file

# CPython 3.11 counts the depth of a tree in a place that all threads share, and fails
# if another one parses while garbage is collected (python/cpython#106905). Filters of
# warnings are shared as well.
_PARSING = threading.Lock()
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def list_files(source: PythonDocsSourceConfig) -> list[SourceFile]:
    """Lists the `.py` files of the packages, named relative to the packages' parents.

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
    spec = _spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"data.source.packages: {package!r} is not an installed top-level package. "
            "Install it or take it off the list"
        )
    return [Path(folder) for folder in spec.submodule_search_locations]


def _spec(package: str) -> ModuleSpec | None:
    """Finds a module spec like `importlib.util.find_spec`; ignores imported modules.

    The path of an imported package may differ: TensorFlow adds folders to its own path
    when it is imported.
    """
    for finder in sys.meta_path:
        if spec := finder.find_spec(package, None):
            return spec
    return None


def read(span: Span, source: PythonDocsSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per docstring or function; one `Rejected` if parsing fails."""
    name = span.file.name
    with open_file(span.file) as stream:
        raw = stream.read()
    try:
        code = importlib.util.decode_source(raw)
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the packages
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield Rejected("not Python that parses", name, 0, excerpt(str(error)), len(raw))
        return
    if source.examples == "docstrings":
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
                yield Document(text, name, getattr(node, "lineno", 1))
        return
    lines = code.split("\n")  # the line numbers of `ast`
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _summary(node, lines, name)


def _summary(
    node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str], name: str
) -> Iterator[Document | Rejected]:
    """Yields code and summary of a function with a docstring and a body."""
    target = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    if not target or all(map(_does_nothing, node.body[1:])):
        return
    try:
        target.encode("utf-8")
    except UnicodeEncodeError:
        reason = "contains a lone surrogate, which has no UTF-8 form"
        yield Rejected.from_content(reason, name, node.lineno, target)
        return
    yield Document(
        _without_docstring(node, lines), name, node.lineno, target_text=target
    )


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is ...
    )


def _without_docstring(
    node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> str:
    """Returns a function's code from `def` on, dedented, without its docstring."""
    docstring = node.body[0]
    margin = lines[node.lineno - 1][: node.col_offset]
    before = _stretch(lines, node.lineno, 0, docstring.lineno, docstring.col_offset)
    after = _stretch(
        lines,
        docstring.end_lineno or docstring.lineno,
        docstring.end_col_offset or 0,
        node.end_lineno or node.lineno,
        node.end_col_offset or 0,
    )
    if after.lstrip(" \t").startswith(";"):  # def f(): "Docstring."; return 1
        code = before + after.lstrip("; \t")
    else:
        code = before.rstrip() + after
    return "\n".join(line.removeprefix(margin) for line in code.split("\n"))


def _stretch(
    lines: list[str], first: int, first_column: int, last: int, last_column: int
) -> str:
    """Returns the code between two positions; lines from 1, columns in UTF-8 bytes."""
    inner = [line.encode("utf-8") for line in lines[first - 1 : last]]
    inner[-1] = inner[-1][:last_column]
    inner[0] = inner[0][first_column:]
    return b"\n".join(inner).decode("utf-8")
