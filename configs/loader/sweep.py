"""A sweep: one run for each combination of some keys' values, from one YAML file.

This example has four runs:

    name: peaks
    base: configs/tiny/masked.yaml
    set:
      training.steps: 60
    grid:
      training.schedule.peak: [1e-3, 4e-3]
      model.dropout: [0.0, 0.1]
"""

import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.loader.plan_nodes import (
    read_name,
    read_plan,
    read_section,
    read_string,
)
from transbeam.configs.loader.yaml_merge import LENGTHS
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlList,
    YamlScalar,
    complain,
    describe_node,
)

_KEYS = ("name", "base", "set", "grid")
_MOST_RUNS = 1_000


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file.

    Attributes:
        name: The sweep's name.
        base: The file of the configuration that all runs share, relative to the
            working directory.
        fixed: Overrides that apply to all runs, in the form `--set` accepts.
        grid: The values of each varied key, in the form `--set` accepts.
    """

    name: str
    base: Path
    fixed: tuple[str, ...]
    grid: Mapping[str, tuple[str, ...]]

    def points(self) -> Iterator[tuple[str, ...]]:
        """Yields the grid's values of each run; the last key varies fastest.

        Example:
        >>> sweep = Sweep("s", Path("a"), (), {"seed": ("1", "2"), "b": ("3",)})
        >>> list(sweep.points())
        [('seed=1', 'b=3'), ('seed=2', 'b=3')]
        """
        for values in itertools.product(*self.grid.values()):
            pairs = zip(self.grid, values, strict=True)
            yield tuple(f"{key}={value}" for key, value in pairs)


def load_sweep(path: str | Path) -> Sweep:
    """Reads the file of a sweep.

    Raises:
        ConfigError: The file is invalid; the message names the position.
    """
    root = read_plan(path, "sweep", _KEYS)
    keys = "dotted keys and their values"
    none: Mapping[str, Node] = {}
    fixed = (
        read_section(root, "set", "sweep", keys).nodes if "set" in root.nodes else none
    )
    of_grid = read_section(root, "grid", "sweep", keys).nodes
    grid = {key: _values(key, node) for key, node in of_grid.items()}
    for key in fixed.keys() & grid.keys():
        raise complain(
            root.nodes["grid"].where,
            f"grid.{key}",
            f"stands in `set` too ({fixed[key].where}). Remove one of them",
        )
    _refuse_two_lengths({**fixed, **grid}, root.nodes["grid"].where)
    name = read_name(root, "sweep")
    runs = math.prod(map(len, grid.values()))
    if runs > _MOST_RUNS:
        raise complain(
            root.nodes["grid"].where,
            "grid",
            f"{runs:,} runs; a sweep has {_MOST_RUNS:,} at most",
        )
    return Sweep(
        name,
        Path(read_string(root, "base", "sweep")),
        tuple(f"{key}={_flow(node)}" for key, node in fixed.items()),
        grid,
    )


def _refuse_two_lengths(keys: Collection[str], where: str) -> None:
    both = [f"training.{name}" for name in LENGTHS]
    if all(key in keys for key in both):
        raise complain(
            where,
            "grid",
            f"the sweep has {' and '.join(both)}, which both say how long to train. "
            "Remove one of them",
        )


def _values(key: str, node: Node) -> tuple[str, ...]:
    if not isinstance(node, YamlList) or not node.nodes:
        raise complain(
            node.where,
            f"grid.{key}",
            f"expected a list of values, such as [1, 2], found {describe_node(node)}",
        )
    return tuple(map(_flow, node.nodes))


def _flow(node: Node, nested: bool = False) -> str:
    """Formats a node as YAML on one line, with quotes around nested texts."""
    if isinstance(node, YamlScalar):
        quotes = node.quoted or (nested and isinstance(node.value, str))
        return json.dumps(node.text, ensure_ascii=False) if quotes else node.text
    if isinstance(node, YamlList):
        return f"[{', '.join(_flow(inner, nested=True) for inner in node.nodes)}]"
    pairs = (f"{key}: {_flow(inner, nested=True)}" for key, inner in node.nodes.items())
    return f"{{{', '.join(pairs)}}}"
