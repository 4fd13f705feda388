"""One YAML file → `RunConfig`, and back.

    run.yaml:3: model.num_layer: unknown key. Did you mean 'num_layers'? ...

Every error names the file, the line and the dotted key. `--set model.num_layers=8` is
parsed like the file and passes the same checks.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml

from transbeam.configs.base.reflection import plain
from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.compatibility import check_model
from transbeam.configs.loader.parse_dataclasses import bind_section, hold_rules
from transbeam.configs.loader.run_file import run_file
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlList,
    YamlScalar,
    YamlSection,
    complain,
    compose,
    found,
    is_blank,
    resolve,
)
from transbeam.configs.schema.run import RunConfig

Rule = Callable[[RunConfig], None]


def load_run(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
) -> RunConfig:
    r"""Reads a run's configuration.

    Args:
        path: The YAML file, in UTF-8, or the folder of a run (`run_file`).
        overrides: `KEY=VALUE` texts as given to `--set`: a dotted key, and a value as
            written in the file. Later ones win.
        with_model: True if the model will be used, and so must fit the records; see
            `transbeam.configs.loader.compatibility`.
        rules: Further checks for the intended use; see
            `transbeam.configs.loader.export_support`.

    Raises:
        ConfigError: The file or an override is invalid.

    Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "run.yaml")
    ...     _ = file.write_text(
    ...         "name: tiny\n"
    ...         "data: {source: {kind: text, path: corpus.txt}}\n"
    ...         "training: {steps: 100, schedule: {peak: 6e-4}}\n"
    ...     )
    ...     run = load_run(file, ["model.num_layers=2"])
    >>> run.model.num_layers, run.training.schedule.peak
    (2, 0.0006)
    """
    file = run_file(path)
    return parse_run(
        read_text(file), str(file), overrides, with_model=with_model, rules=rules
    )


def parse_run(
    text: str,
    file: str,
    overrides: Sequence[str] = (),
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
    lines: bool = True,
) -> RunConfig:
    """Parses a run's configuration from text.

    Args:
        text: The YAML.
        file: Its name in error messages.
        overrides: See `load_run`.
        with_model: See `load_run`.
        rules: See `load_run`.
        lines: If true, messages name lines; false for text that the user cannot see.
    """
    root = compose(text, lambda line: f"{file}:{line}" if lines else file)
    if root is None:
        raise complain(
            file, "", "the file is empty; `transbeam explain` lists the keys"
        )
    if not isinstance(root, YamlSection):
        what = f"expected a section (keys and values), found {found(root)}"
        raise complain(root.where, "", what)
    for override in overrides:
        root = _override(root, override)
    config = bind_section(RunConfig, root, path="")
    for rule in (*([check_model] if with_model else []), *rules):
        hold_rules(partial(rule, config), root, path="")
    return config


def read_text(path: str | Path) -> str:
    """Reads the text of a YAML file.

    Raises:
        ConfigError: The file is missing, or is not UTF-8.
    """
    try:
        # utf-8-sig removes a byte order mark.
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise complain(str(path), "", "there is no such file") from None
    except IsADirectoryError:
        raise complain(str(path), "", "is a folder; a YAML file is needed") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"0x{error.object[error.start]:02x}"
        what = f"byte {byte} is not UTF-8; save the file as UTF-8"
        raise complain(f"{path}:{line}", "", what) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise complain(str(path), "", f"cannot be read: {reason}") from None


def _override(root: YamlSection, override: str) -> YamlSection:
    where = f"--set {override}"
    dotted, equals, text = override.partition("=")
    names = dotted.strip().split(".")
    if not equals or not all(names):
        what = "expected KEY=VALUE, such as --set training.steps=100"
        raise complain(where, "", what)
    value = compose(text, lambda _: where, dotted.strip()) or YamlScalar(
        where, "", quoted=False
    )
    return cast(YamlSection, _put(root, names, value, where, path=""))


def _put(node: Node, names: list[str], value: Node, where: str, path: str) -> Node:
    """Sets a value below a node, and creates missing sections on the way.

    List elements are named by their index, from 0: `parts.0.weight`.
    """
    if not names:
        return value
    name, *rest = names
    inner_path = f"{path}.{name}" if path else name
    if isinstance(node, YamlList):
        place = int(name) if name.isdecimal() else -1
        if not 0 <= place < len(node.nodes):
            what = (
                f"{name!r} is no place in the list that stands there ({node.where}). "
                f"It has {len(node.nodes)}, counted from 0"
            )
            raise complain(where, path, what)
        nodes = list(node.nodes)
        nodes[place] = _put(nodes[place], rest, value, where, inner_path)
        return YamlList(node.where, tuple(nodes))
    if not isinstance(node, YamlSection):
        what = f"{found(node)} stands there ({node.where}), not a section"
        raise complain(where, path, what)
    inner = node.nodes.get(name)
    if inner is None or is_blank(inner):
        inner = YamlSection(where, {})
    inner = _put(inner, rest, value, where, inner_path)
    return YamlSection(node.where, {**node.nodes, name: inner})


class _Dumper(yaml.SafeDumper):
    """Writes YAML that `resolve` reads back unchanged, with lists indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(_: _Dumper, text: str) -> yaml.ScalarNode:
    # Unless double-quoted, PyYAML reads U+0085 and similar characters as line ends.
    is_safe = text.isprintable() and isinstance(resolve(text), str)
    style = None if is_safe else '"'
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def dump_run(config: RunConfig) -> str:
    """Writes a configuration as YAML with all defaults; it reloads as equal."""
    header = f"# Every key of the run, as resolved by Transbeam {VERSION}.\n"
    return header + dump_sections(vars(config))


def dump_sections(sections: Mapping[str, Any]) -> str:
    """Writes some keys of a run as YAML, without checking them against each other.

    Args:
        sections: Values or dataclasses by their top-level keys.

    Example:
    >>> from transbeam.configs.schema.tokenizer import PretrainedConfig
    >>> print(dump_sections({"seed": 1, "tokenizer": PretrainedConfig(path="x")}))
    seed: 1
    tokenizer:
      kind: pretrained
      path: x
      lowercase: null
      strip_accents: null
      num_sentinels: 0
    <BLANKLINE>
    """
    # Unlimited width, as folded lines are harder to search and to compare.
    return yaml.dump(
        {name: plain(section) for name, section in sections.items()},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )


def flatten(config: RunConfig, *sections: str) -> dict[str, Any]:
    """Flattens a configuration to dotted keys and plain values, for fingerprints.

    Args:
        config: The run.
        sections: Names of the top-level keys to keep; all of them if there is none.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> from transbeam.configs.schema.training import TrainingConfig
    >>> run = RunConfig(
    ...     name="tiny",
    ...     data=DataConfig(source=TextSourceConfig(path="corpus.txt")),
    ...     training=TrainingConfig(steps=100),
    ... )
    >>> flatten(run, "seed", "objective")["objective.masking_fraction"]
    0.15
    """
    values = plain(config)
    kept = {name: values[name] for name in sections} if sections else values
    return dict(_leaves(kept, prefix=""))


def _leaves(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, value
