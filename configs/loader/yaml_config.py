"""Converts a YAML file to a `RunConfig`, and back.

    run.yaml:3: model.num_layer: unknown key. Did you mean 'num_layers'? ...

Every error names the file, the line and the dotted key. `--set model.num_layers=8` is
parsed like the file and passes the same checks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from transbeam.configs.base.reflection import plain
from transbeam.configs.loader.compatibility import check_model
from transbeam.configs.loader.extends import read_root
from transbeam.configs.loader.model_source import with_model_source
from transbeam.configs.loader.overrides import override
from transbeam.configs.loader.parse_dataclasses import apply_rules, bind_section
from transbeam.configs.loader.run_file import run_file
from transbeam.configs.loader.yaml_nodes import YamlSection, read_text
from transbeam.configs.schema.run import RunConfig

Rule = Callable[[RunConfig], None]


@dataclass(frozen=True)
class ResolvedRun:
    """A run's configuration, with the origin of each key.

    Attributes:
        config: The configuration.
        root: The YAML nodes of the keys that are written, including inherited keys.
    """

    config: RunConfig
    root: YamlSection


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
    return load_resolved(path, overrides, with_model=with_model, rules=rules).config


def load_resolved(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
) -> ResolvedRun:
    """Like `load_run`, with the origin of each key; the arguments are the same."""
    file = run_file(path)
    return parse_resolved(
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
        file: The name of the file in error messages.
        overrides: See `load_run`.
        with_model: See `load_run`.
        rules: See `load_run`.
        lines: If true, error messages contain line numbers; false for text that the
            user cannot see.
    """
    return parse_resolved(
        text, file, overrides, with_model=with_model, rules=rules, lines=lines
    ).config


def parse_resolved(
    text: str,
    file: str,
    overrides: Sequence[str] = (),
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
    lines: bool = True,
) -> ResolvedRun:
    """Like `parse_run`, with the origin of each key; the arguments are the same."""
    root = read_root(text, file, lines=lines)
    return bind_root(root, file, overrides, with_model=with_model, rules=rules)


def bind_root(
    root: YamlSection,
    file: str,
    overrides: Sequence[str] = (),
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
) -> ResolvedRun:
    """Parses a run's configuration from its nodes, after `extends` is resolved.

    Args:
        root: The nodes of the configuration's keys.
        file: The file that contains the configuration.
        overrides: See `load_run`.
        with_model: See `load_run`.
        rules: See `load_run`.

    Raises:
        ConfigError: A key or an override is invalid.
    """
    root = override(root, overrides)
    root, of_source = with_model_source(root, (Path(file).resolve(),))
    config = bind_section(RunConfig, root, path="")
    of_model = (check_model,) if with_model else ()
    for rule in (*of_source, *of_model, *rules):
        apply_rules(partial(rule, config), root, path="")
    return ResolvedRun(config, root)


def flatten(config: RunConfig, *sections: str) -> dict[str, Any]:
    """Flattens a configuration to dotted keys and plain values, for fingerprints.

    Args:
        config: The run.
        sections: Names of the top-level keys to keep; without names, all keys are kept.

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
            yield from _leaves(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            yield prefix + name, value
