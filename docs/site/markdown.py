"""Pieces of Markdown that are written by programs."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_NUMBER = re.compile(r"[\d,.]+")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Writes a table; columns of numbers are set to the right.

    Example:
    >>> print(table(["key", "size", "meaning"], [["`a`", "1,024", "this | that"]]))
    | key | size | meaning |
    |---|---:|---|
    | `a` | 1,024 | this \| that |
    """
    rows = [*rows]
    columns = zip(*rows, strict=True)
    numbers = [all(map(_NUMBER.fullmatch, cells)) for cells in columns]
    rule = "".join("---:|" if right else "---|" for right in numbers)
    return "\n".join([_row(header), f"|{rule}", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    texts = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |"


def escape(text: str) -> str:
    """Keeps what stands outside of code from being taken for HTML.

    Example:
    >>> escape("<email> in place of `<b>`")
    '&lt;email> in place of `<b>`'
    """
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def flow_yaml(value: Any) -> str:
    """Writes a plain value as YAML on one line.

    Example:
    >>> flow_yaml({"kind": "adamw", "patterns": ["*/bias"], "decay": None})
    '{kind: adamw, patterns: ["*/bias"], decay: null}'
    """
    if isinstance(value, list):
        return f"[{', '.join(map(flow_yaml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key}: {flow_yaml(held)}" for key, held in value.items())
        return f"{{{', '.join(pairs)}}}"
    plain_in_yaml = isinstance(value, str) and re.fullmatch(r"[\w./-]+", value)
    return value if plain_in_yaml else json.dumps(value)
