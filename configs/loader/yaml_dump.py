"""A configuration, or a part of it, as YAML text."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from transbeam.configs.base.reflection import plain
from transbeam.configs.loader.yaml_nodes import resolve
from transbeam.configs.schema.run import RunConfig


class _Dumper(yaml.SafeDumper):
    """Dumper with indented lists, whose output `resolve` parses to the same values."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(_: _Dumper, text: str) -> yaml.ScalarNode:
    # Unquoted or in single quotes PyYAML reads U+0085 and its like as a line's end.
    is_safe = text.isprintable() and isinstance(resolve(text), str)
    style = None if is_safe else '"'
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def dump_run(config: RunConfig) -> str:
    """Dumps a configuration with all defaults as YAML that loads as an equal one."""
    return dump_sections(vars(config))


def dump_sections(sections: Mapping[str, Any]) -> str:
    """Dumps some sections of a run as YAML, without validating their combination.

    Args:
        sections: Maps top-level keys to values or dataclasses.

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
    # A width without end: folded lines are harder to search and to compare.
    return yaml.dump(
        {name: plain(section) for name, section in sections.items()},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
