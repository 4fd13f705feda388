"""`transbeam explain`: prints the schema, for authors of configurations.

The left column is YAML with the defaults filled in, ready to be copied; the right
column describes each key and its allowed values.
"""

import json
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from transbeam.configs.base.fields import REQUIRED
from transbeam.configs.base.reflection import (
    ConfigKey,
    nearest,
    plain,
    section_kind,
    section_kinds,
    type_text,
    walk,
    written_keys,
)
from transbeam.configs.loader.yaml_nodes import complain
from transbeam.configs.schema.run import RunConfig

_INDENT = "  "


def explain(key: str = "", width: int | None = None) -> str:
    """Describes a key and all keys nested in it, as an indented tree.

    Args:
        key: A dotted key such as `model.position`; empty for the whole file.
        width: The width for wrapping the descriptions, in columns; the terminal's width
            if left out.

    Raises:
        ConfigError: The schema has no key of this name.

    Example:
    >>> print(explain("objective.mask_fraction", width=80))
    objective.mask_fraction: 0.8  Share of the selected tokens that are replaced by
                                  [MASK]. [number from 0.0 to 1.0]
    """
    name = key.removesuffix(".kind")
    rows = list(_key_rows(_find(key), name, "")) if key else list(_all_rows())
    width = width or shutil.get_terminal_size((100, 24)).columns
    # A row that is longer than half of the width has its description below it.
    left = min(max(len(row) for row, _ in rows) + 2, width // 2)
    right = max(width - left, 30)
    lines: list[str] = []
    for row, text in rows:
        wrapped = textwrap.wrap(text, right, break_on_hyphens=False) or [""]
        if len(row) > left - 2:
            lines.extend(_wrapped_row(row, width))
        else:
            lines.append(f"{row:{left}}{wrapped.pop(0)}")
        lines.extend(" " * left + line for line in wrapped)
    return "\n".join(line.rstrip() for line in lines)


def _wrapped_row(row: str, width: int) -> list[str]:
    indent = " " * (len(row) - len(row.lstrip()))
    return textwrap.wrap(
        row,
        width,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def explain_json(key: str = "") -> dict[str, Any]:
    """Describes a key and its nested keys as a JSON object, for editors and scripts.

    A plain key has `type`, `doc`, `required`, `default`, `minimum` and `maximum`; a
    section has its `keys`, or `kinds` with the keys of each.

    Example:
    >>> explain_json("objective.mask_fraction")["default"]
    0.8
    """
    return _key_json(_find(key)) if key else _keys_json(RunConfig)


def _find(dotted: str) -> ConfigKey:
    keys: dict[str, ConfigKey] = {}
    for path, key in walk(RunConfig):
        keys.setdefault(path, key)
    wanted = dotted.removesuffix(".kind")
    if wanted in keys:
        return keys[wanted]
    parent, _, name = dotted.rpartition(".")
    siblings = {
        key.name: path
        for path, key in keys.items()
        if path.rpartition(".")[0] == parent
    }
    namesakes = [path for path, key in keys.items() if key.name == name]
    if near := nearest(name, siblings):
        hint = f"Did you mean {siblings[near]!r}?"
    elif namesakes:
        hint = f"Did you mean {' or '.join(map(repr, namesakes[:2]))}?"
    else:
        hint = f"Known: {', '.join(siblings or written_keys(RunConfig))}."
    raise complain("", dotted, f"unknown key. {hint}")


def _all_rows() -> Iterator[tuple[str, str]]:
    for key in written_keys(RunConfig).values():
        yield from _key_rows(key, key.name, "")


def _key_rows(key: ConfigKey, name: str, indent: str) -> Iterator[tuple[str, str]]:
    kinds = section_kinds(key.annotation)
    if not kinds:
        allowed = f"{type_text(key.annotation)} {key.range_text}".strip()
        yield f"{indent}{name}: {_default_text(key)}", f"{key.doc} [{allowed}]"
        return
    required = " Required." if key.required else ""
    yield f"{indent}{name}:", f"{key.doc}{required}"
    indent += _INDENT
    described: list[_DescribedKey] = []
    for kind, section in kinds.items():
        inner = indent
        if kind:
            yield f"{indent}kind: {kind}", _kind_text(kind, section, key)
            # If there are several kinds, the keys of each are indented below its name.
            inner += _INDENT if len(kinds) > 1 else ""
        yield from _rows_below(section, kind, inner, described)


@dataclass(frozen=True)
class _DescribedKey:
    """A key that was already described, and the kind of section it was in."""

    key: ConfigKey
    kind: str

    @property
    def sections(self) -> dict[str, type]:
        return section_kinds(self.key.annotation)

    def describes(self, key: ConfigKey) -> bool:
        return self.key == key and self.key.doc == key.doc


def _rows_below(
    section: type, kind: str, indent: str, described: list[_DescribedKey]
) -> Iterator[tuple[str, str]]:
    """Yields rows for the keys of a section, with references to earlier descriptions.

    Args:
        section: The section.
        kind: Its kind.
        indent: The indentation of each row.
        described: The keys described so far; newly described keys are appended.
    """
    keys = _own_keys(section)
    before = {one.key.name: one for one in described if one.kind != kind}
    again = {
        key.name: before[key.name].kind
        for key in keys
        if key.name in before and before[key.name].describes(key)
    }
    for other in dict.fromkeys(again.values()):
        names = [name for name, its_kind in again.items() if its_kind == other]
        yield f"{indent}# as in {other}:", ", ".join(names)
    for key in keys:
        if key.name in again:
            continue
        sections = section_kinds(key.annotation)
        known = next(
            (one for one in described if sections.items() <= one.sections.items()), None
        )
        if known is None or not sections:
            yield from _key_rows(key, key.name, indent)
        else:
            yield _row_referring(key, known, kind, indent)
        described.append(_DescribedKey(key, kind))


def _row_referring(
    key: ConfigKey, known: _DescribedKey, kind: str, indent: str
) -> tuple[str, str]:
    """A row for a key whose kinds were described; shows its default if it differs."""
    sections = section_kinds(key.annotation)
    where = known.key.name + (f" of {known.kind}" if known.kind != kind else "")
    if sections == known.sections:
        what = f"the same {'keys' if '' in sections else 'kinds'} as {where}"
    else:
        what = f"the kinds {', '.join(sections)} of {where}"
    other = not key.required and key.default != known.key.default
    default = f" {_default_text(key)}" if other else ""
    return f"{indent}{key.name}:{default}", f"{key.doc} [{what}]"


def _kind_text(kind: str, section: type, key: ConfigKey) -> str:
    is_default = not key.required and getattr(key.default, "kind", None) == kind
    choice = len(section_kinds(key.annotation)) > 1
    return _first_line(section) + (" The default." if is_default and choice else "")


def _first_line(section: type) -> str:
    return (section.__doc__ or "").partition("\n")[0]


def _default_text(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "(required)"
    return _yaml_text(plain(key.default))


def _yaml_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml_text, cast('list[Any]', value)))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return f"{{{', '.join(f'{key}: {_yaml_text(of)}' for key, of in pairs)}}}"
    plain_in_yaml = isinstance(value, str) and re.fullmatch(r"[\w./-]+", value)
    return value if plain_in_yaml else json.dumps(value)


def _keys_json(section: type) -> dict[str, Any]:
    described = {key.name: _key_json(key) for key in _own_keys(section)}
    return {"doc": _first_line(section), "keys": described}


def _own_keys(section: type) -> list[ConfigKey]:
    """The keys except for `kind`, which selects the section's class."""
    keys = written_keys(section).values()
    return [key for key in keys if key.name != "kind" or not section_kind(section)]


def _key_json(key: ConfigKey) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": type_text(key.annotation),
        "doc": key.doc,
        "required": key.required,
    }
    kinds = section_kinds(key.annotation)
    if "" in kinds:
        return described | {"keys": _keys_json(kinds[""])["keys"]}
    if kinds:
        default = None if key.required else getattr(key.default, "kind", None)
        kinds_json = {kind: _keys_json(section) for kind, section in kinds.items()}
        return described | {"default_kind": default, "kinds": kinds_json}
    return described | {
        "default": None if key.required else plain(key.default),
        "minimum": key.minimum,
        "maximum": key.maximum,
    }
