"""Reads the values of files that plan several runs: sweeps and suites."""

from collections.abc import Sequence
from pathlib import Path

from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.loader.yaml_nodes import (
    YamlScalar,
    YamlSection,
    complain,
    compose,
    describe_node,
    read_text,
)
from transbeam.configs.schema.run import FOLDER_NAME


def read_plan(path: str | Path, kind: str, keys: Sequence[str]) -> YamlSection:
    """Reads the top-level keys of a plan.

    Args:
        path: The YAML file.
        kind: The kind of plan, such as `sweep`, for error messages.
        keys: The known keys.

    Raises:
        ConfigError: The file is not YAML, or has an unknown key.
    """
    root = compose(read_text(path), lambda line: f"{path}:{line}")
    if not isinstance(root, YamlSection):
        named = ", ".join(keys)
        raise complain(str(path), "", f"expected the keys of a {kind}: {named}")
    check_keys(root, keys, f"a {kind}")
    return root


def check_keys(node: YamlSection, keys: Sequence[str], what: str) -> None:
    """Rejects unknown keys of a section.

    Raises:
        ConfigError: A key is unknown; the message suggests a similar one.
    """
    for key, child in node.nodes.items():
        if key not in keys:
            raise complain(
                child.where, key, f"is no key of {what}.{did_you_mean(key, keys)}"
            )


def read_name(node: YamlSection, kind: str) -> str:
    """Reads the key `name`, which becomes the name of a folder.

    Raises:
        ConfigError: It is missing, or cannot be a folder's name.
    """
    name = read_string(node, "name", kind)
    if not FOLDER_NAME.fullmatch(name):
        raise complain(
            node.nodes["name"].where,
            "name",
            "expected letters, digits, '.', '_' and '-': it is a folder's name",
        )
    return name


def read_string(node: YamlSection, key: str, kind: str) -> str:
    """Reads a required text.

    Raises:
        ConfigError: The key is missing, or its value is no text.
    """
    child = node.nodes.get(key)
    if child is None:
        raise complain(node.where, key, f"is missing; a {kind} needs it")
    if not isinstance(child, YamlScalar) or not isinstance(child.value, str):
        found = describe_node(child)
        raise complain(child.where, key, f"expected a text, found {found}")
    return child.value


def read_section(node: YamlSection, key: str, kind: str, expected: str) -> YamlSection:
    """Reads a required section that is not empty.

    Args:
        node: The section that contains it.
        key: Its key.
        kind: The kind of plan, for error messages.
        expected: What the section contains, for error messages.

    Raises:
        ConfigError: The key is missing, or its value is no section.
    """
    child = node.nodes.get(key)
    if child is None:
        raise complain(node.where, key, f"is missing; a {kind} needs it")
    if not isinstance(child, YamlSection) or not child.nodes:
        found = describe_node(child)
        raise complain(child.where, key, f"expected {expected}, found {found}")
    return child
