r"""Reads the file of `transbeam evaluate --tasks`.

This example asks for the mood of reviews, without shots and with four:

    name: moods
    shots: [0, 4]
    tasks:
    - kind: choice
      name: reviews
      source: {kind: csv, path: "dev.csv", columns: {text: review, label: mood}}
      shots_source: {kind: csv, path: "train.csv", columns: {text: review, label: mood}}
      prompt: "{text}\nThe mood is"
      choices: [{label: "1", text: good}, {label: "0", text: bad}]
"""

from functools import partial
from pathlib import Path
from typing import cast

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import check_template, template_fields
from transbeam.configs.loader.objective_requirements import source_fields
from transbeam.configs.loader.parse_dataclasses import apply_rules, bind_section
from transbeam.configs.loader.yaml_nodes import (
    YamlList,
    YamlSection,
    complain,
    compose,
    read_text,
)
from transbeam.configs.schema.sources import SingleSource
from transbeam.configs.schema.task_file import (
    ChoiceTaskConfig,
    GenerationTaskConfig,
    PerplexityTaskConfig,
    Task,
    TaskFileConfig,
)


def load_task_file(path: str | Path) -> TaskFileConfig:
    """Reads a file of tasks.

    Raises:
        ConfigError: The file is invalid; the message names the position.
    """
    root = compose(read_text(path), lambda line: f"{path}:{line}")
    if not isinstance(root, YamlSection):
        raise complain(str(path), "", "expected the keys of a task file: name, tasks")
    config: TaskFileConfig = bind_section(TaskFileConfig, root, path="")
    nodes = cast("YamlList", root.nodes["tasks"]).nodes
    for number, (task, node) in enumerate(zip(config.tasks, nodes, strict=True)):
        section = cast("YamlSection", node)
        apply_rules(partial(_check_task, task), section, path=f"tasks[{number}]")
    return config


def _check_task(task: Task) -> None:
    """Checks that the sources of a task have the fields that its templates need."""
    match task:
        case PerplexityTaskConfig():
            _check_fields("source", task.source, ["text"])
            return
        case ChoiceTaskConfig():
            needed = ["label"] if task.choices else ["label", "choices"]
        case GenerationTaskConfig():
            needed = template_fields("target", task.target)
    for key in ("source", "shots_source"):
        source: SingleSource | None = getattr(task, key)
        if source is None:
            continue
        _check_fields(key, source, needed)
        known = [name for name in source_fields(source) if name not in _NOT_TEXT]
        check_template("prompt", task.prompt, known)
        if isinstance(task, GenerationTaskConfig):
            check_template("target", task.target, [*known, *_answers(source)])


# Fields that are no text, or that would give the answer away.
_NOT_TEXT = ("words", "tags", "image", "messages", "answers", "choices")


def _answers(source: SingleSource) -> list[str]:
    return [name for name in source_fields(source) if name == "answers"]


def _check_fields(key: str, source: SingleSource, needed: list[str]) -> None:
    known = source_fields(source)
    missing = [field for field in needed if field not in known]
    if missing:
        example = ", ".join(f"{name}: COLUMN" for name in missing)
        raise ConfigError(
            f"{key}.kind={source.kind} gives {' and '.join(known)} of each document, "
            f"and the task needs {' and '.join(missing)}. Name its column: "
            f"columns: {{{example}}}; or take another source"
        )
