"""`--set KEY=VALUE`: overrides of a configuration on the command line."""

from collections.abc import Sequence
from typing import cast

from transbeam.configs.loader.yaml_merge import MODEL_SOURCES, lengths, remove_replaced
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlList,
    YamlScalar,
    YamlSection,
    complain,
    compose,
    describe_node,
    is_blank,
)


def override(root: YamlSection, overrides: Sequence[str]) -> YamlSection:
    """Applies overrides to the keys of a file.

    Args:
        root: The file.
        overrides: `KEY=VALUE`: a dotted key, and a value as it would be written in the
            file. Later overrides win, but `model.preset` and `model.init_from` are
            applied first, regardless of their position.

    Raises:
        ConfigError: An override is not of the form `KEY=VALUE`, or its path contains a
            key that is not a section.
    """
    for text in sorted(overrides, key=lambda text: not _names_a_model(text)):
        root = _override(root, text)
    return root


def _names_a_model(text: str) -> bool:
    key = text.partition("=")[0].strip()
    return key in [f"model.{name}" for name in MODEL_SOURCES]


def _override(root: YamlSection, text: str) -> YamlSection:
    where = f"--set {text}"
    dotted, equals, written = text.partition("=")
    names = dotted.strip().split(".")
    if not equals or not all(names):
        raise complain(
            where, "", "expected KEY=VALUE, such as --set training.steps=100"
        )
    if names == ["extends"]:
        what = "is a key of a file, which the other one's place is relative to"
        raise complain(where, "extends", f"{what}. Write it there")
    value = compose(written, lambda _: where, dotted.strip()) or YamlScalar(
        where, "", quoted=False
    )
    alone = value
    for name in reversed(names):
        alone = YamlSection(where, {name: alone})
    over = cast(YamlSection, alone)
    _refuse_two_lengths(root, over, where)
    root = remove_replaced(root, over)
    return cast(YamlSection, _put(root, names, value, where, path=""))


def _refuse_two_lengths(root: YamlSection, over: YamlSection, where: str) -> None:
    """Rejects steps and epochs of a training that are both overrides."""
    before, new = (lengths(one) for one in (root, over))
    for name, node in before.items():
        if new and name not in new and node.where.startswith("--set "):
            raise complain(
                where,
                f"training.{next(iter(new))}",
                f"{node.where} also says how long to train. Remove one of them",
            )


def _put(node: Node, names: list[str], value: Node, where: str, path: str) -> Node:
    """Returns the node with a value set at a path; creates missing sections.

    A list element is addressed by its index, from 0: `parts.0.weight`.
    """
    if not names:
        return value
    name, *rest = names
    inner_path = f"{path}.{name}" if path else name
    if isinstance(node, YamlList):
        place = int(name) if name.isdecimal() else -1
        if not 0 <= place < len(node.nodes):
            raise complain(
                where,
                path,
                f"{name!r} is not an index of the list ({node.where}). "
                f"The list has {len(node.nodes)} elements, counted from 0",
            )
        nodes = list(node.nodes)
        nodes[place] = _put(nodes[place], rest, value, where, inner_path)
        return YamlList(node.where, tuple(nodes))
    if not isinstance(node, YamlSection):
        raise complain(
            where,
            path,
            f"expected a section, found {describe_node(node)} ({node.where})",
        )
    inner = node.nodes.get(name)
    if inner is None or is_blank(inner):
        inner = YamlSection(where, {})
    inner = _put(inner, rest, value, where, inner_path)
    outdated = node.outdated - {name}
    return YamlSection(node.where, {**node.nodes, name: inner}, outdated)
