"""Merges one configuration over another, node by node."""

from dataclasses import replace

from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlScalar,
    YamlSection,
    is_blank,
)

# Keys of `model` that name a whole model, and what a training may begin with.
MODEL_SOURCES = ("preset", "init_from")
# Keys of `training` that say how long it is; a configuration has one of them.
LENGTHS = ("steps", "epochs")

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
    and are kept, if both configurations name a preset, or if both name a run. The
    length of a training in `over`, steps or epochs, replaces that in `under`.
    """
    return merge_sections(remove_replaced(under, over), over)


def remove_replaced(under: YamlSection, over: YamlSection) -> YamlSection:
    """Removes what another configuration replaces by other keys: model and length."""
    return _remove_replaced_length(remove_replaced_model(under, over), over)


def _remove_replaced_length(under: YamlSection, over: YamlSection) -> YamlSection:
    """Removes the steps of a training if another configuration has epochs, and so on.

    Example:
    >>> from transbeam.configs.loader.yaml_nodes import compose
    >>> under = compose("training: {steps: 100, batch_size: 8}", "a.yaml:{}".format)
    >>> over = compose("training: {epochs: 3}", "b.yaml:{}".format)
    >>> list(put_over(under, over).nodes["training"].nodes)
    ['batch_size', 'epochs']
    """
    return without_keys(under, "training", LENGTHS) if lengths(over) else under


def lengths(root: YamlSection) -> dict[str, Node]:
    """Returns the values that say how long a training is: steps, epochs, or none."""
    training = root.nodes.get("training")
    given = training.nodes if isinstance(training, YamlSection) else {}
    return {k: given[k] for k in LENGTHS if k in given and not is_null(given[k])}


def merge_sections(under: YamlSection, over: YamlSection) -> YamlSection:
    """Merges two sections; see `merge`."""
    merged = merge(under, over)
    assert isinstance(merged, YamlSection)
    return merged


def remove_replaced_model(under: YamlSection, over: YamlSection) -> YamlSection:
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
