"""A resolved configuration as a single file, with the origin of each key."""

from collections.abc import Iterator
from typing import Any, cast

from transbeam.configs.base.reflection import plain
from transbeam.configs.loader.yaml_config import ResolvedRun
from transbeam.configs.loader.yaml_dump import dump_sections
from transbeam.configs.loader.yaml_nodes import Node, YamlList, YamlSection, compose

_COLUMNS = 48  # before the places, unless a line is longer


def resolved_file(run: ResolvedRun) -> str:
    r"""Returns the written keys as YAML; a comment gives the origin of each.

    Keys that are not written anywhere have their defaults and are left out. Loading the
    YAML text gives an equal configuration.

    Example:
    >>> from transbeam.configs.loader.yaml_config import parse_resolved
    >>> text = "name: a\ndata: {source: {kind: text, path: b.txt}}\n"
    >>> print(resolved_file(parse_resolved(text, "a.yaml", ["seed=1"])), end="")
    name: a                                          # a.yaml:1
    seed: 1                                          # --set seed=1
    data:
      source:
        kind: text                                   # a.yaml:2
        path: b.txt                                  # a.yaml:2
    """
    written = _written(plain(run.config), run.root)
    lines = dump_sections(written).splitlines()
    dumped = compose("\n".join(lines), str)
    assert isinstance(dumped, YamlSection)
    places = _places(written, run.root)
    for path, number in _places(written, dumped).items():
        line = lines[int(number) - 1]
        lines[int(number) - 1] = f"{line:{_COLUMNS}} # {places[path]}"
    return "".join(f"{line}\n" for line in lines)


def key_origins(run: ResolvedRun) -> dict[str, str]:
    r"""Returns the origin of each written key: `file:line`, or the `--set` override.

    Example:
    >>> from transbeam.configs.loader.yaml_config import parse_resolved
    >>> text = "name: a\ndata: {source: {kind: text, path: b.txt}}\n"
    >>> key_origins(parse_resolved(text, "a.yaml"))["data.source.path"]
    'a.yaml:2'
    """
    return _places(_written(plain(run.config), run.root), run.root)


def takes_from_elsewhere(run: ResolvedRun) -> bool:
    """Returns whether some keys of a configuration are written in another file."""
    own = run.root.where.rpartition(":")[0]
    return any(
        place.rpartition(":")[0] != own and not place.startswith("--set ")
        for place in key_origins(run).values()
    )


def _written(value: Any, node: Node) -> Any:
    """Drops the keys of a nested value that are not written in the configuration."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        nodes = node.nodes if isinstance(node, YamlSection) else {}
        return {k: _written(inner[k], nodes[k]) for k in inner if k in nodes}
    if isinstance(value, list) and isinstance(node, YamlList):
        elements = cast("list[Any]", value)
        pairs = zip(elements, node.nodes, strict=True)
        return [_written(element, inner) for element, inner in pairs]
    return cast("Any", value)


def _places(written: Any, node: Node) -> dict[str, str]:
    return dict(_walk(written, node, ""))


def _walk(written: Any, node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Yields the dotted name of each value, and the origin of its node."""
    if written and isinstance(written, dict) and isinstance(node, YamlSection):
        for name, inner in cast("dict[str, Any]", written).items():
            dotted = f"{path}.{name}" if path else name
            yield from _walk(inner, node.nodes[name], dotted)
    elif written and isinstance(written, list) and isinstance(node, YamlList):
        for number, inner in enumerate(cast("list[Any]", written)):
            yield from _walk(inner, node.nodes[number], f"{path}[{number}]")
    else:
        yield path, node.where
