"""`extends: other.yaml`: merges a file's keys over another file's, node by node."""

from dataclasses import replace
from pathlib import Path

from transbeam.configs.base.reflection import section_keys
from transbeam.configs.loader.parse_dataclasses import bind_section
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlScalar,
    YamlSection,
    complain,
    compose,
    found,
    is_blank,
    read_text,
)
from transbeam.configs.schema.inheritance import FileInheritanceConfig

Chain = tuple[Path, ...]
_KEYS = section_keys(FileInheritanceConfig)


def read_root(
    text: str, file: str, chain: Chain = (), *, lines: bool = True
) -> YamlSection:
    """Reads a configuration's keys, merged over those of the file that it extends.

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
            root.where, "", f"expected a section (keys and values), found {found(root)}"
        )
    given = {name: node for name, node in root.nodes.items() if name in _KEYS}
    taken = bind_section(FileInheritanceConfig, replace(root, nodes=given), path="")
    own = {name: node for name, node in root.nodes.items() if name not in _KEYS}
    root = replace(root, nodes=own)
    if taken.extends is None:
        return root
    return put_over(_extended(taken.extends, given["extends"].where, file, chain), root)


def _extended(name: str, where: str, file: str, chain: Chain) -> YamlSection:
    """Reads the file that another one extends, without the key `name`.

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


# Keys of `model` that name a whole model, and what a training may begin with.
MODEL_SOURCES = ("preset", "init_from")
_BEGINNINGS = ("init_from", "initial_weights")


def merge(under: Node, over: Node) -> Node:
    """Merges sections key by key; other values in `over` replace those in `under`.

    Each node keeps its file position. An empty section in `over` leaves the section in
    `under` unchanged.

    Example:
    >>> from transbeam.configs.loader.yaml_nodes import compose
    >>> under = compose("norm: {kind: rms, epsilon: 1e-6}", "a.yaml:{}".format)
    >>> over = compose("norm: {kind: layer_norm}", "b.yaml:{}".format)
    >>> norm = merge(under, over).nodes["norm"]
    >>> [(name, node.text, node.where) for name, node in norm.nodes.items()]
    [('kind', 'layer_norm', 'b.yaml:1'), ('epsilon', '1e-6', 'a.yaml:1')]
    >>> norm.outdated
    frozenset({'epsilon'})
    """
    if not isinstance(under, YamlSection):
        return over
    if is_blank(over):
        return replace(under, where=over.where)
    if not isinstance(over, YamlSection):
        return over
    nodes = dict(under.nodes)
    for name, node in over.nodes.items():
        nodes[name] = merge(nodes[name], node) if name in nodes else node
    older = under.outdated
    if _scalar_text(over, "kind") not in (None, _scalar_text(under, "kind")):
        older = frozenset(under.nodes)
    outdated = older.difference(over.nodes) | over.outdated
    return YamlSection(over.where, nodes, outdated)


def put_over(under: YamlSection, over: YamlSection) -> YamlSection:
    """Merges two configurations.

    If `over` names a preset or run as its model, a model that `under` describes key by
    key is dropped. Other keys in the `model` section of `under` modify the new model,
    and are kept, if both configurations name a preset, or if both name a run.
    """
    return merge_sections(make_room(under, over), over)


def merge_sections(under: YamlSection, over: YamlSection) -> YamlSection:
    """Merges two sections; see `merge`."""
    merged = merge(under, over)
    assert isinstance(merged, YamlSection)
    return merged


def make_room(under: YamlSection, over: YamlSection) -> YamlSection:
    """Removes the model from a configuration if another configuration replaces it."""
    named = find_model_source(over)
    if named is None:
        return under
    if named == find_model_source(under):
        return under
    gone = {"model"}
    if named == "init_from":
        gone.add("tokenizer")  # which comes with the weights
        under = without_keys(under, "training", _BEGINNINGS)
    kept = {name: node for name, node in under.nodes.items() if name not in gone}
    return replace(under, nodes=kept)


def find_model_source(root: YamlSection) -> str | None:
    """Returns the `model` key that selects a whole model, such as `preset`, if any.

    Example:
    >>> from transbeam.configs.loader.yaml_nodes import compose
    >>> find_model_source(compose("model: {preset: bert_base}", str))
    'preset'
    >>> find_model_source(compose("model: {preset: null, num_layers: 2}", str)) is None
    True
    """
    model = root.nodes.get("model")
    for name in MODEL_SOURCES:
        node = model.nodes.get(name) if isinstance(model, YamlSection) else None
        if node is not None and not is_null(node):
            return name
    return None


def is_null(node: Node) -> bool:
    """Returns whether a value is empty or null."""
    return isinstance(node, YamlScalar) and node.value is None


def _scalar_text(section: YamlSection, name: str) -> str | None:
    node = section.nodes.get(name)
    return node.text if isinstance(node, YamlScalar) else None


def without_keys(root: YamlSection, name: str, keys: tuple[str, ...]) -> YamlSection:
    """Returns the configuration without some keys of a section."""
    section = root.nodes.get(name)
    if not isinstance(section, YamlSection):
        return root
    kept = {key: node for key, node in section.nodes.items() if key not in keys}
    return replace(root, nodes={**root.nodes, name: replace(section, nodes=kept)})
