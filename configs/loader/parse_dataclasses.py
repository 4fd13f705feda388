"""Parses YAML nodes into frozen dataclasses, strictly at every depth.

This module checks values against each field's declaration: type, range, kinds. Rules
between fields are checked in the `__post_init__` of the smallest section that contains
the fields; this module adds the file position to the errors.

A section with several kinds may omit `kind` if the schema has a default for the
section; it then has the default's kind. A section with only one kind may always omit
`kind`. Keys of another kind are always errors.
"""

import functools
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import REQUIRED
from transbeam.configs.base.reflection import (
    ConfigKey,
    did_you_mean,
    section_keys,
    section_kind,
    section_kinds,
    split_optional,
    type_text,
    walk,
    written_keys,
)
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlList,
    YamlScalar,
    YamlSection,
    complain,
    describe_node,
    is_blank,
)
from transbeam.configs.schema.run import RunConfig

T = TypeVar("T")


def bind_section(section: type, node: YamlSection, path: str) -> Any:
    """Builds one section.

    Args:
        section: Its dataclass.
        node: The parsed YAML, which may contain the `kind` that selected the section.
        path: The section's dotted key; empty for the whole file.

    Raises:
        ConfigError: A key is unknown, missing, of a wrong type or out of range, or a
            rule of the section is violated.
    """
    keys = section_keys(section)
    values: dict[str, Any] = {}
    for name, child in node.nodes.items():
        if name not in keys:
            raise complain(child.where, _join(path, name), _unknown(name, section))
        if name != "kind" or not section_kind(section):
            values[name] = _bind_key(keys[name], child, _join(path, name))
    for key in keys.values():
        if key.required and key.name not in values:
            raise complain(
                node.where,
                _join(path, key.name),
                f"this required key is missing. {key.doc}".strip(),
            )
    return apply_rules(lambda: section(**values), node, path)


def apply_rules(rules: Callable[[], T], node: YamlSection, path: str) -> T:
    """Applies rules between keys, and adds the position of a named key to errors.

    Args:
        rules: A function that checks the section and raises a `ConfigError` that
            contains `key=value` of the wrong key.
        node: The section that is checked.
        path: The section's dotted key; empty for the whole file.
    """
    try:
        return rules()
    except ConfigError as error:
        where = _place_named_in(str(error), node) or node.where
        raise complain(where, path, str(error)) from None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown(name: str, section: type) -> str:
    keys = written_keys(section)
    hint = did_you_mean(name, keys)
    places = [dotted for dotted in _dotted_keys() if dotted.endswith(f".{name}")]
    if not hint and places:
        hint = f" Did you mean {' or '.join(map(repr, places[:2]))}?"
    return f"unknown key.{hint} Known here: {', '.join(keys)}."


@functools.cache
def _dotted_keys() -> tuple[str, ...]:
    # Kinds of a section may share a key.
    return tuple(dict.fromkeys(dotted for dotted, _ in walk(RunConfig)))


def _place_named_in(message: str, node: YamlSection) -> str | None:
    """Finds the position of the first user-given key that a rule's message names.

    Keys of the section's own file take precedence over those of extended files, which
    were valid before the merge.
    """
    places: list[str] = []
    for dotted in re.findall(r"([a-z_][\w.]*)(?==|:)", message):
        named: Node | None = node
        for name in dotted.split("."):
            named = named.nodes.get(name) if isinstance(named, YamlSection) else None
        if named is not None:
            places.append(named.where)
    own = [place for place in places if _is_over(place, node.where)]
    return next(iter([*own, *places]), None)


def _is_over(place: str, section: str) -> bool:
    """Returns whether a position is in the section's own file or an override."""
    file = section.rpartition(":")[0]
    return place.startswith("--set ") or place.rpartition(":")[0] == file


def _bind_key(key: ConfigKey, node: Node, path: str) -> Any:
    value = _bind(key.annotation, node, path, key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        too_small = key.minimum is not None and value < key.minimum
        too_large = key.maximum is not None and value > key.maximum
        if too_small or too_large:
            raise complain(
                node.where,
                path,
                f"{value} is out of range: it must be {key.range_text}",
            )
    return value


def _bind(annotation: Any, node: Node, path: str, key: ConfigKey | None = None) -> Any:
    """Parses a node as a type; `key` is the node's key, or None for a list element."""
    annotation, optional = split_optional(annotation)
    if optional and isinstance(node, YamlScalar) and node.value is None:
        return None
    if kinds := section_kinds(annotation):
        return _bind_kind(kinds, node, path, key)
    if typing.get_origin(annotation) is tuple:
        return _bind_items(annotation, node, path)
    if typing.get_origin(annotation) is Mapping:
        return _bind_mapping(annotation, node, path)
    if typing.get_origin(annotation) is typing.Literal:
        return _bind_literal(annotation, node, path)
    return _bind_value(annotation, node, path)


def _bind_kind(
    kinds: dict[str, type], node: Node, path: str, key: ConfigKey | None
) -> Any:
    if is_blank(node):
        # If all keys of a section are commented out, only `section:` remains.
        node = YamlSection(node.where, {})
    if not isinstance(node, YamlSection):
        what = f"expected a section (keys and values), found {describe_node(node)}."
        if isinstance(node, YamlScalar) and node.text in kinds:
            what += f" Write {{kind: {node.text}}}."
        raise complain(node.where, path, what)
    if "" in kinds:
        return bind_section(kinds[""], node, path)
    chosen = _selected_kind(kinds, node, path, key)
    node = _without_outdated_keys(kinds[chosen], node, path)
    _refuse_keys_of_other_kinds(kinds, chosen, node, path)
    return bind_section(kinds[chosen], node, path)


def _selected_kind(
    kinds: dict[str, type], node: YamlSection, path: str, key: ConfigKey | None
) -> str:
    listed = ", ".join(kinds)
    default = REQUIRED if key is None else key.default
    given = node.nodes.get("kind")
    if isinstance(given, YamlScalar) and given.value in kinds:
        return given.text
    if given is not None:
        near = did_you_mean(given.text, kinds) if isinstance(given, YamlScalar) else ""
        # The key's description may explain why a kind of another key is not allowed.
        doc = f" {key.doc}" if key else ""
        raise complain(
            given.where,
            _join(path, "kind"),
            f"no such kind: {describe_node(given)}.{near} Known here: {listed}.{doc}",
        )
    if len(kinds) == 1:
        return listed
    if default is REQUIRED or default is None:
        raise complain(
            node.where,
            _join(path, "kind"),
            f"this required key is missing. Known here: {listed}.",
        )
    return default.kind


def _without_outdated_keys(chosen: type, node: YamlSection, path: str) -> YamlSection:
    """Drops keys of an extended file that the chosen kind lacks but another kind has.

    A misspelled key belongs to no kind, so it is kept, and rejected later.
    """
    place = re.sub(r"\[\d+\]", "", path)
    gone = {
        name
        for name in node.outdated - section_keys(chosen).keys()
        if _join(place, name) in _dotted_keys()
    }
    kept = {name: child for name, child in node.nodes.items() if name not in gone}
    return replace(node, nodes=kept)


def _refuse_keys_of_other_kinds(
    kinds: dict[str, type], chosen: str, node: YamlSection, path: str
) -> None:
    kind = node.nodes.get("kind")
    for name, child in node.nodes.items():
        owners = [
            kind for kind, section in kinds.items() if name in section_keys(section)
        ]
        if not owners or chosen in owners:
            continue
        what = (
            f"is a key of kind {owners[0]!r}, but the kind here is {chosen!r} "
            f"({kind.where if kind else 'the default'}). "
            f"Write `kind: {owners[0]}`, or remove this key."
        )
        if kind and kind.where.startswith("--set"):
            what += f" --set '{path}={{kind: {chosen}}}' replaces the whole section."
        raise complain(child.where, _join(path, name), what)


def _bind_items(annotation: Any, node: Node, path: str) -> tuple[Any, ...]:
    element = typing.get_args(annotation)[0]
    if not isinstance(node, YamlList):
        what = f"expected a {type_text(annotation)}, found {describe_node(node)}."
        if isinstance(node, YamlScalar) and node.text:
            what += f" Write [{node.text}]."
        raise complain(node.where, path, what)
    return tuple(
        _bind(element, child, f"{path}[{index}]")
        for index, child in enumerate(node.nodes)
    )


def _bind_mapping(annotation: Any, node: Node, path: str) -> dict[str, Any]:
    element = typing.get_args(annotation)[1]
    if not isinstance(node, YamlSection):
        what = f"expected a {type_text(annotation)}, found {describe_node(node)}"
        raise complain(node.where, path, what)
    return {
        name: _bind(element, child, _join(path, name))
        for name, child in node.nodes.items()
    }


def _bind_literal(annotation: Any, node: Node, path: str) -> Any:
    known = typing.get_args(annotation)
    if isinstance(node, YamlScalar) and node.value in known:
        return node.value
    near = did_you_mean(node.text, known) if isinstance(node, YamlScalar) else ""
    raise complain(
        node.where,
        path,
        f"expected {type_text(annotation)}, found {describe_node(node)}.{near}",
    )


def _bind_value(annotation: type, node: Node, path: str) -> Any:
    value = node.value if isinstance(node, YamlScalar) else None
    if annotation is float and type(value) is int:
        value = float(value) if abs(value) < 2**1023 else math.inf
    if type(value) is not annotation:
        article = "a " if annotation in (int, float) else ""
        expected = f"{article}{type_text(annotation)}"
        what = f"expected {expected}, found {describe_node(node)}."
        raise complain(node.where, path, what + _type_hint(annotation, node))
    if isinstance(value, float) and not math.isfinite(value):
        raise complain(node.where, path, f"{describe_node(node)} is not finite")
    if type(value) is int and abs(value) >= 2**63:
        raise complain(node.where, path, f"{describe_node(node)} does not fit 64 bits")
    return value


def _type_hint(annotation: type, node: Node) -> str:
    if not isinstance(node, YamlScalar):
        return ""
    if annotation is str:
        return f' Put it in quotes: "{node.text}".' if node.text else ""
    if node.quoted and type(YamlScalar("", node.text, False).value) in (
        annotation,
        int,
    ):
        return f" Remove the quotes: {node.text}."
    if annotation is bool and node.text.lower() in ("yes", "on", "no", "off"):
        return f" Write {'true' if node.text.lower() in ('yes', 'on') else 'false'}."
    if annotation is int and isinstance(node.value, float) and node.value.is_integer():
        return f" Write {int(node.value)}."
    return ""
