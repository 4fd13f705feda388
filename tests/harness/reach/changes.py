"""Changes since a commit: files, and the functions in them."""

import ast
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.stages import PRODUCT

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Change:
    """A file that is not as it was.

    Attributes:
        path: Below the root.
        functions: Names of those that differ, such as `Chunks.take`; a function inside
            another counts as part of it.
        elsewhere: Whether code outside of functions differs, which runs on import. So
            it is of files that are new, gone, or not Python.
    """

    path: str
    functions: frozenset[str] = field(default_factory=frozenset)
    elsewhere: bool = False

    @property
    def module(self) -> str:
        """The dotted name of a Python file."""
        name = self.path.removesuffix(".py").removesuffix("/__init__")
        module = name.replace("/", ".")
        return f"transbeam.{module}" if module.split(".")[0] in PRODUCT else module


def changes_since(commit: str, root: Path = ROOT) -> list[Change]:
    """The files that differ from a commit, those that git does not know among them."""
    names = _git(root, "diff", "--name-only", "--no-renames", commit).splitlines()
    names += _git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    found = []
    for name in sorted(set(names)):
        now = root / name
        before = _show(root, commit, name)
        after = now.read_bytes() if now.is_file() else None
        if before != after:
            found.append(compare(name, before, after))
    return found


def compare(path: str, before: bytes | None, after: bytes | None) -> Change:
    """Compares two versions of a file; None where there is no file.

    Example:
    >>> compare("a.py", b"x = 1", b"x = 1  # said").elsewhere
    False
    >>> sorted(compare("a.py", b"def f(): return 1", b"def f(): return 2").functions)
    ['f']
    """
    if before is None or after is None or not path.endswith(".py"):
        return Change(path, elsewhere=True)
    try:
        old, new = _parts(before), _parts(after)
    except SyntaxError:
        return Change(path, elsewhere=True)
    differ = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    return Change(path, frozenset(differ - {""}), elsewhere="" in differ)


def function_lines(source: bytes) -> dict[str, range]:
    """The lines of each function's body, by the function's name."""
    found = {}
    for name, node in _functions(ast.parse(source), ""):
        found[name] = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    return found


def _parts(source: bytes) -> dict[str, str]:
    """Each function's code, and under "" the code around them; without comments."""
    tree = ast.parse(source)
    parts = {}
    for name, node in _functions(tree, ""):
        parts[name] = ast.dump(node)
        # That it is there, with which decorators and defaults, is code of the module.
        node.body = []
    parts[""] = ast.dump(tree)
    return parts


def _functions(tree: ast.AST, within: str):
    """The outermost functions of a module and of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{within}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{within}{node.name}.")
        else:  # such as `if TYPE_CHECKING:`
            yield from _functions(node, within)


def _show(root: Path, commit: str, name: str) -> bytes | None:
    done = subprocess.run(
        ["git", "show", f"{commit}:{name}"], cwd=root, capture_output=True
    )
    return done.stdout if done.returncode == 0 else None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout
