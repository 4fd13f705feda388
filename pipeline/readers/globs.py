"""Which files of this machine a glob names, also where folders link to one another."""

import glob
import os
from collections.abc import Iterator


def expand(pattern: str) -> list[str]:
    """The paths a glob names, each once, in any order.

    As `glob.glob` finds them, but a link to a folder it lies in is not followed: that
    would go on for ever.

    Args:
        pattern: A path, with `*`, `?`, `[...]` and (for folders at any depth) `**`.
    """
    return list(dict.fromkeys(_expand(pattern)))


def _expand(pattern: str) -> Iterator[str]:
    head, deep, rest = _at_any_depth(pattern)
    if not deep:
        yield from glob.glob(pattern)
        return
    for base in glob.glob(head) if glob.has_magic(head) else [head]:
        for folder in _folders(base, ()):
            if rest:
                yield from _expand(os.path.join(glob.escape(folder), rest))
            else:  # a pattern that ends with `**` names all there is
                yield folder
                yield from glob.glob(os.path.join(glob.escape(folder), "*"))


def _at_any_depth(pattern: str) -> tuple[str, bool, str]:
    """What stands before and behind the first `**`, and whether there is one."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, False, ""
    place = parts.index("**")
    head = "/".join(parts[:place]) or ("/" if place else "")
    return head, True, "/".join(parts[place + 1 :])


def _folders(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """A folder and those in it that are not hidden, at any depth."""
    try:
        status = os.stat(folder or ".")
        here = status.st_dev, status.st_ino
        if here in above:
            return
        with os.scandir(folder or ".") as entries:
            inner = [e.name for e in entries if e.name[:1] != "." and e.is_dir()]
    except OSError:  # as for `glob`: what cannot be looked into has nothing in it
        return
    yield folder
    for name in sorted(inner):
        yield from _folders(os.path.join(folder, name), (*above, here))
