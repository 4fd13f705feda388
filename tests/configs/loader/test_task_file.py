"""Files of tasks: each wrong key is named with its line."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.task_file import load_task_file
from transbeam.configs.schema.task_file import (
    ChoiceTaskConfig,
    GenerationTaskConfig,
    PerplexityTaskConfig,
)

FILE = r"""
name: moods
shots: [0, 4]
tasks:
- kind: choice
  name: reviews
  source: {kind: csv, path: "dev.csv", columns: {text: review, label: mood}}
  prompt: "{text}\nThe mood is"
  choices: [{label: "1", text: good}, {label: "0", text: bad}]
- kind: generation
  name: questions
  source: {kind: squad, path: "dev.json"}
  prompt: "{text}\n{second_text}"
  target: "{answers}"
- kind: perplexity
  name: books
  source: {kind: text, path: "*.txt"}
  window: 64
  stride: 32
"""


def load(tmp_path: Path, old: str = "", new: str = ""):
    assert old in FILE
    file = tmp_path / "tasks.yaml"
    file.write_text(FILE.replace(old, new) if old else FILE, "utf-8")
    return load_task_file(file)


def test_tasks_of_each_kind(tmp_path):
    file = load(tmp_path)
    choice, generation, perplexity = file.tasks
    assert isinstance(choice, ChoiceTaskConfig)
    assert isinstance(generation, GenerationTaskConfig)
    assert isinstance(perplexity, PerplexityTaskConfig)
    assert [of.text for of in choice.choices] == ["good", "bad"]
    assert (file.shots, choice.shots, file.seed) == ((0, 4), None, 0)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("{text}\\nThe", "{txt}\\nThe", 8, "there is no field {txt}; prompt may have"),
        ("mood is", "mood is ", 8, "ends with white space"),
        ('"{text}\\nThe mood is"', "The mood is", 8, "the same for every document"),
        (", label: mood}", "}", 7, "the task needs label. Name its column"),
        ("choices: [{", "#", 7, "the task needs choices. Name its column"),
        (', {label: "0", text: bad}', "", 9, "expected at least two, found one"),
        ('"0", text: bad', '"1", text: bad', 9, "the label '1' occurs twice"),
        ("text: bad", "text: good", 9, "the text 'good' occurs twice"),
        ("text: bad", 'text: " "', 9, "a choice without words"),
        ("name: questions", "name: reviews", 4, "the name 'reviews' occurs twice"),
        ("[0, 4]", "[]", 3, "expected different numbers from 0"),
        ("[0, 4]", "[4, 4]", 3, "expected different numbers from 0"),
        ("[0, 4]", "[-1]", 3, "expected different numbers from 0"),
        ("{kind: squad", "{kind: text", 12, "the task needs answers"),
        ("target:", "targets:", 14, "unknown key. Did you mean 'target'?"),
        ("stride: 32", "stride: 65", 19, "stride=65 is more than window=64"),
        ("kind: choice", "kind: choose", 5, "no such kind: the text 'choose'"),
        ("name: moods", "name: ../moods", 2, "it is a folder's name"),
        ('{kind: text, path: "*.txt"}', "{kind: images, path: a}", 17, "needs text"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path, old, new, line, message):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, old, new)
    assert f"tasks.yaml:{line}: " in str(error.value)
    assert message in str(error.value)


def test_a_file_that_is_no_section(tmp_path):
    file = tmp_path / "tasks.yaml"
    file.write_text("- a\n", "utf-8")
    with pytest.raises(ConfigError, match="expected the keys of a task file"):
        load_task_file(file)
