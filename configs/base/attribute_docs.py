"""Reads attribute docstrings, the string literals below the fields of a class.

Python keeps no such string at run time; Sphinx and mkdocstrings read them from the
source as well.
"""

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator


def attribute_docs(cls: type) -> dict[str, str]:
    """Returns the docstring of each attribute of a class and of its bases.

    Empty for a class without a source file, such as one typed into a console.

    Example:
    >>> from transbeam.configs.schema.block import LearnedPositionConfig
    >>> attribute_docs(LearnedPositionConfig)["offset"]
    'Unused rows of the table before the first position (RoBERTa has 2).'
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        docs |= _module_docs(base.__module__).get(base.__name__, {})
    return docs


@functools.cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):  # not in a file, or built in
        return {}
    return {
        node.name: dict(_class_docs(node))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _class_docs(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, following in itertools.pairwise(node.body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                yield name, " ".join(doc.split())
            case _:
                pass
