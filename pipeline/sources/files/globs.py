"""Expands globs robustly: brackets in names, folders, cyclic links."""

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from transbeam.configs.base.errors import DataError

_LOOKED_AT = 1000
_ESCAPED = re.compile(r"\[([*?[])\]")


def expand(pattern: str) -> list[str]:
    """Returns the paths that match a glob, each once, in any order.

    Like `glob.glob`, but links to a parent folder are not followed, because following
    them would not terminate.

    Args:
        pattern: A path, with `*`, `?`, `[...]` and (for folders at any depth) `**`.
    """
    return list(dict.fromkeys(_expand(pattern)))


def escape_existing(pattern: str) -> str:
    """Escapes the components of a glob that are names of existing files or folders.

    A folder may be named `data [v1]`, which as a glob matches `data v` or `data 1`.

    Args:
        pattern: A local path, with or without `*`, `?` and `[...]`.

    Example:
    >>> escape_existing("/no/such/[v1]/*.txt")
    '/no/such/[v1]/*.txt'
    """
    names: list[str] = []
    path = ""
    for number, name in enumerate(pattern.split("/")):
        path += ("/" if number else "") + name
        is_there = glob.has_magic(name) and os.path.lexists(path)
        names.append(glob.escape(name) if is_there else name)
    return "/".join(names)


def unescaped(name: str) -> str | None:
    """Returns the name that a glob component matches; None if several names can match.

    Example:
    >>> unescaped("a"), unescaped("[[]v1]"), unescaped("*.txt")
    ('a', '[v1]', None)
    """
    plain = _ESCAPED.sub("", name)
    return None if glob.has_magic(plain) else _ESCAPED.sub(r"\1", name)


def only_folders(pattern: str, folders: Sequence[Path]) -> DataError:
    """Returns the error for a glob that matches only folders, with a suggestion."""
    files = (path for folder in folders for path in folder.rglob("*"))
    found = [path for path in islice(files, _LOOKED_AT) if path.is_file()]
    suffixes = Counter(path.suffix for path in found)
    is_flat = all(path.parent in folders for path in found)
    names = f"*{suffixes.most_common(1)[0][0]}" if found else "*"
    wanted = f"{pattern.rstrip('/')}/{'' if is_flat else '**/'}{names}"
    what = "a folder" if len(folders) == 1 else f"{len(folders)} folders"
    return DataError(
        f"data.source: {pattern!r} is {what}, and a path names files. Write a glob for "
        f"the files in it, such as {wanted!r}"
    )


def _expand(pattern: str) -> Iterator[str]:
    head, deep, rest = _at_any_depth(pattern)
    if not deep:
        yield from glob.glob(pattern)
        return
    for base in glob.glob(head) if glob.has_magic(head) else [head]:
        for folder in _folders(base, _above(base)):
            if rest:
                yield from _expand(os.path.join(glob.escape(folder), rest))
            else:  # a pattern that ends with `**` matches everything
                yield folder
                yield from glob.glob(os.path.join(glob.escape(folder), "*"))


def _at_any_depth(pattern: str) -> tuple[str, bool, str]:
    """Splits a pattern at the first `**`; the flag is True if there is a `**`."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, False, ""
    place = parts.index("**")
    head = "/".join(parts[:place]) or ("/" if place else "")
    return head, True, "/".join(parts[place + 1 :])


_Identity = tuple[int, int]  # a folder's device and number


def _above(folder: str) -> tuple[_Identity, ...]:
    """Returns the device and inode numbers of the parents of a folder."""
    try:
        return tuple(map(_identity, Path(folder or ".").resolve().parents))
    except OSError:
        return ()


def _identity(folder: str | Path) -> _Identity:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself; other entries are unaffected
        return False


def _folders(folder: str, above: tuple[_Identity, ...]) -> Iterator[str]:
    """Yields a folder and its subfolders that are not hidden, at any depth."""
    try:
        here = _identity(folder or ".")
        if here in above:
            return
        with os.scandir(folder or ".") as entries:
            inner = [e.name for e in entries if e.name[:1] != "." and _is_folder(e)]
    except OSError:  # like `glob`: unreadable folders count as empty
        return
    yield folder
    for name in sorted(inner):
        yield from _folders(os.path.join(folder, name), (*above, here))
