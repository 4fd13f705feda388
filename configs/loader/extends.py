"""`extends: other.yaml`: merges a file's keys over another file's, node by node."""

from dataclasses import replace
from pathlib import Path

from transbeam.configs.base.reflection import section_keys
from transbeam.configs.loader.parse_dataclasses import bind_section
from transbeam.configs.loader.yaml_merge import put_over
from transbeam.configs.loader.yaml_nodes import (
    YamlSection,
    complain,
    compose,
    describe_node,
    read_text,
)
from transbeam.configs.schema.inheritance import FileInheritanceConfig

Chain = tuple[Path, ...]
_KEYS = section_keys(FileInheritanceConfig)


def read_root(
    text: str, file: str, chain: Chain = (), *, lines: bool = True
) -> YamlSection:
    """Reads a configuration's keys, merged over the keys of the file that it extends.

    Args:
        text: The YAML.
        file: The file's path, for error messages and to resolve relative paths.
        chain: Resolved paths of the files that refer to this one, directly or
            indirectly, to detect cycles.
        lines: If true, error messages contain line numbers; false for text that the
            user cannot see.

    Raises:
        ConfigError: The text is not YAML, or the extended file does not exist or
            extends this one in turn.
    """
    root = compose(text, lambda line: f"{file}:{line}" if lines else file)
    if root is None:
        raise complain(
            file, "", "the file is empty; `transbeam explain` lists the keys"
        )
    if not isinstance(root, YamlSection):
        raise complain(
            root.where,
            "",
            f"expected a section (keys and values), found {describe_node(root)}",
        )
    given = {name: node for name, node in root.nodes.items() if name in _KEYS}
    taken = bind_section(FileInheritanceConfig, replace(root, nodes=given), path="")
    own = {name: node for name, node in root.nodes.items() if name not in _KEYS}
    root = replace(root, nodes=own)
    if taken.extends is None:
        return root
    return put_over(_extended(taken.extends, given["extends"].where, file, chain), root)


def _extended(name: str, where: str, file: str, chain: Chain) -> YamlSection:
    """Reads a file that another file extends, without the key `name`.

    With an inherited name, the run would use the other run's folder and move its stages
    aside.
    """
    path = Path(file).parent / Path(name).expanduser()
    chain = (*chain, Path(file).resolve())
    if path.resolve() in chain:
        circle = chain[chain.index(path.resolve()) :]
        names = " → ".join(link.name for link in (*circle, path))
        raise complain(where, "extends", f"leads back to a file before it: {names}")
    if not path.is_file():
        is_folder = "is a folder" if path.is_dir() else "there is no such file"
        raise complain(
            where,
            "extends",
            f"{path}: {is_folder}; expected a YAML file, relative to {file}",
        )
    root = read_root(read_text(path), str(path), chain)
    kept = {key: node for key, node in root.nodes.items() if key != "name"}
    return replace(root, nodes=kept)
