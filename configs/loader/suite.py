"""A suite: runs on several tasks, with the scores that count, from one YAML file.

name: two_tasks
run:                                  # keys of all rows
model: {init_from: runs/minilm}
training: {steps: 500, batch_size: 16}
rows:
- name: cola
run:
data:
source: {kind: csv, path: CoLA/train.tsv, columns: {text: "3", label: "1"}}
objective: {kind: classification, labels: ["0", "1"]}
scores: {matthews: validation.matthews_correlation}
- name: rte
base: ../tasks/rte.yaml           # a run's file, to which the keys are added
scores: {accuracy: test.accuracy}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transbeam.configs.loader.extends import read_root
from transbeam.configs.loader.plan_nodes import (
    check_keys,
    read_name,
    read_plan,
    read_section,
    read_string,
)
from transbeam.configs.loader.yaml_config import bind_root
from transbeam.configs.loader.yaml_merge import put_over
from transbeam.configs.loader.yaml_nodes import (
    YamlList,
    YamlScalar,
    YamlSection,
    complain,
    describe_node,
    read_text,
)
from transbeam.configs.schema.run import RunConfig

_KEYS = ("name", "run", "rows")
_ROW_KEYS = ("name", "base", "run", "scores")
_SPLITS = ("validation", "test")


@dataclass(frozen=True)
class Score:
    """A score that counts in a suite's row.

    Attributes:
        split: `validation` or `test`, which is `evaluation.test` of the run.
        name: The score's name in `transbeam evaluate`'s results.
    """

    split: str
    name: str


@dataclass(frozen=True)
class Row:
    """A row of a suite: a run, and its scores.

    Attributes:
        name: The row's name, also of the run's folder.
        config: The run's configuration.
        scores: The scores that count, by the names under which they are shown.
    """

    name: str
    config: RunConfig
    scores: Mapping[str, Score]

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the row's scores."""
        there = {score.split for score in self.scores.values()}
        return tuple(split for split in _SPLITS if split in there)


@dataclass(frozen=True)
class Suite:
    """The content of a suite's file.

    Attributes:
        name: The suite's name.
        rows: Its rows, in the order of the file.
    """

    name: str
    rows: tuple[Row, ...]


def load_suite(path: str | Path, overrides: Sequence[str] = ()) -> Suite:
    """Reads the file of a suite.

    Args:
        path: The YAML file.
        overrides: Overrides of the runs of all rows, as `--set` takes them.

    Raises:
        ConfigError: The file is invalid, or the configuration of a row; the message
            names the position.
    """
    root = read_plan(path, "suite", _KEYS)
    name = read_name(root, "suite")
    common = YamlSection(root.where, {})
    if "run" in root.nodes:
        common = _run_section(root)
    listed = root.nodes.get("rows")
    if not isinstance(listed, YamlList) or not listed.nodes:
        found = "nothing" if listed is None else describe_node(listed)
        where = root.where if listed is None else listed.where
        raise complain(where, "rows", f"expected a list of rows, found {found}")
    rows: dict[str, Row] = {}
    for number, node in enumerate(listed.nodes):
        place = f"rows[{number}]"
        if not isinstance(node, YamlSection):
            found = describe_node(node)
            raise complain(node.where, place, f"expected a row, found {found}")
        row = _row(node, common, name, str(path), overrides)
        if row.name in rows:
            where = node.nodes["name"].where
            raise complain(where, "name", f"two rows are named {row.name!r}")
        rows[row.name] = row
    return Suite(name, tuple(rows.values()))


def _run_section(node: YamlSection) -> YamlSection:
    section = read_section(node, "run", "suite", "keys of a run")
    for key in ("name", "extends"):
        if key in section.nodes:
            where = section.nodes[key].where
            hint = "Write `base` in the row" if key == "extends" else "Remove it"
            what = f"is set by the suite, for each row. {hint}"
            raise complain(where, f"run.{key}", what)
    return section


def _row(
    node: YamlSection,
    common: YamlSection,
    suite: str,
    file: str,
    overrides: Sequence[str],
) -> Row:
    check_keys(node, _ROW_KEYS, "a row of a suite")
    name = read_name(node, "row")
    root = _base(node, file) if "base" in node.nodes else replace(common, nodes={})
    root = put_over(root, common)
    if "run" in node.nodes:
        root = put_over(root, _run_section(node))
    named = YamlScalar(node.nodes["name"].where, f"{suite}_{name}", quoted=True)
    root = replace(root, nodes={"name": named, **root.nodes}, where=node.where)
    config = bind_root(root, file, overrides, with_model=True).config
    scores = {
        shown: _score(shown, child)
        for shown, child in read_section(
            node, "scores", "row", "names and scores, such as {f1: validation.f1_1}"
        ).nodes.items()
    }
    row = Row(name, config, scores)
    if "test" in row.splits and config.evaluation.test is None:
        where = node.nodes["scores"].where
        what = "names a score of test, and the row's run has no evaluation.test"
        raise complain(where, "scores", what)
    return row


def _base(node: YamlSection, file: str) -> YamlSection:
    """Reads the keys of a row's `base`, without its name."""
    given = read_string(node, "base", "row")
    path = Path(file).parent / Path(given).expanduser()
    if not path.is_file():
        where = node.nodes["base"].where
        what = f"{path}: there is no such file; expected one relative to {file}"
        raise complain(where, "base", what)
    root = read_root(read_text(path), str(path))
    kept = {key: child for key, child in root.nodes.items() if key != "name"}
    return replace(root, nodes=kept)


def _score(shown: str, node: object) -> Score:
    assert isinstance(node, YamlScalar | YamlList | YamlSection)
    text = node.text if isinstance(node, YamlScalar) else ""
    split, dot, name = text.partition(".")
    if split not in _SPLITS or not dot or not name:
        raise complain(
            node.where,
            f"scores.{shown}",
            "expected validation.SCORE or test.SCORE, such as validation.accuracy, "
            f"found {describe_node(node)}",
        )
    return Score(split, name)
