"""One page for each section of the configuration, from the classes of its schema."""

import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType

from docs.site.markdown import escape, flow_yaml, table
from transbeam.configs.base.reflection import (
    ConfigKey,
    plain,
    section_kind,
    section_kinds,
    type_text,
    written_keys,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import SingleSource
from transbeam.configs.schema.task_file import TaskFileConfig

FOLDER = "reference/configuration"
HEADER = ["key", "value", "default", "meaning"]

_INTRODUCTION = """\
# Configuration

A run is one YAML file. Its sections are described on the pages of this chapter, which
are made of the same classes that check a file: there is no other key. On a terminal
`transbeam explain KEY` prints the same, and `transbeam check FILE` checks a file and
summarizes it.

Where a key says *one of several kinds*, the key `kind` chooses one, and the other keys
are those of that kind alone:

```yaml
model:
  position: {kind: rope, base: 10000.0}
```

"""


_TASK_FILE = """\
# The file of `evaluate --tasks`

[Tasks without training](../../tasks.md) shows a file; these are all of its keys.

"""
_SOURCES = frozenset(section_kinds(SingleSource).values())


def pages() -> dict[str, Callable[[], str]]:
    """The pages by their paths, each as a function that writes it."""
    sections = {
        name: key
        for name, key in written_keys(RunConfig).items()
        if section_kinds(key.annotation)
    }
    made: dict[str, Callable[[], str]] = {f"{FOLDER}/index.md": _index_page}
    for name, key in sections.items():
        made[f"{FOLDER}/{name}.md"] = _SectionPage(name, key).text
    made[f"{FOLDER}/task_file.md"] = _task_file_page
    return made


def _index_page() -> str:
    keys = written_keys(RunConfig)
    rows = [
        [
            f"[`{name}`]({name}.md)" if section_kinds(key.annotation) else f"`{name}`",
            *_cells(key),
        ]
        for name, key in keys.items()
    ]
    return _INTRODUCTION + table(HEADER, rows) + "\n"


def _task_file_page() -> str:
    keys = written_keys(TaskFileConfig)
    rows = [[f"`{name}`", *_cells(key)] for name, key in keys.items()]
    page = _SectionPage("tasks", keys["tasks"], {_SOURCES: "data.md#data.source"})
    return _TASK_FILE + table(HEADER, rows) + "\n\n" + page.text(title="## `tasks`")


def _cells(key: ConfigKey) -> list[str]:
    """Value, default and meaning of a key, as cells of a table."""
    kinds = section_kinds(key.annotation)
    if kinds:
        allowed = "section" if len(kinds) == 1 else f"one of {len(kinds)} kinds"
    else:
        allowed = f"{type_text(key.annotation)} {key.range_text}".strip()
    return [allowed, _default(key), escape(key.doc)]


def _default(key: ConfigKey) -> str:
    if key.required:
        return "*required*"
    value = plain(key.default)
    if section_kinds(key.annotation) and isinstance(value, dict):
        kind = value.get("kind")
        return f"`{{kind: {kind}}}`" if kind else ""
    return f"`{flow_yaml(value)}`"


class _SectionPage:
    """The page of a section. What is described once is linked to afterwards.

    Args:
        name: The name of the section's key.
        key: The key.
        elsewhere: The links of sections that other pages describe.
    """

    def __init__(
        self,
        name: str,
        key: ConfigKey,
        elsewhere: Mapping[frozenset[type], str] = MappingProxyType({}),
    ) -> None:
        self._name, self._key, self._elsewhere = name, key, elsewhere
        self._described: dict[frozenset[type], str] = {}
        self._lines: list[str] = []

    def text(self, title: str = "") -> str:
        self._described = dict(self._elsewhere)
        title = title or f"# `{self._name}`"
        self._lines = [title, "", escape(self._key.doc), ""]
        self._section(self._key, self._name, 2)
        return "\n".join(self._lines)

    def _section(self, key: ConfigKey, path: str, level: int) -> None:
        kinds = _sections_of(key.annotation)
        self._described[frozenset(kinds.values())] = f"#{path}"
        for kind, section in kinds.items():
            place = f"{path}.{kind}" if kind else path
            if kind:
                self._head(f"`{path}`: `kind: {kind}`", place, level)
                self._lines += [escape(_summary(section)), ""]
            self._keys(section, path, place, min(level + bool(kind), 4))

    def _keys(self, section: type, path: str, place: str, level: int) -> None:
        rows: list[list[str]] = []
        below: list[tuple[ConfigKey, str]] = []
        for key in written_keys(section).values():
            if key.name == "kind" and section_kind(section):
                continue
            allowed, default, doc = _cells(key)
            name = f"`{key.name}`"
            if inner := frozenset(_sections_of(key.annotation).values()):
                if inner not in self._described:
                    own = f"{path}.{key.name}"
                    self._described[inner] = f"#{own}"
                    below.append((key, own))
                name = f"[{name}]({self._described[inner]})"
            rows.append([name, allowed, default, doc])
        if rows:
            self._lines += [table(HEADER, rows), ""]
        for key, own in below:
            self._head(f"`{own}`", own, level)
            self._lines += [escape(key.doc), ""]
            self._section(key, own, min(level + 1, 4))

    def _head(self, title: str, anchor: str, level: int) -> None:
        self._lines += [f"{'#' * level} {title} {{ #{anchor} }}", ""]


def _sections_of(annotation: object) -> dict[str, type]:
    """The kinds of section that a key holds, or a list of them."""
    if typing.get_origin(annotation) is tuple:
        return section_kinds(typing.get_args(annotation)[0])
    return section_kinds(annotation)


def _summary(section: type) -> str:
    return (section.__doc__ or "").partition("\n")[0]
