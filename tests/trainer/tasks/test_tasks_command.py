"""`transbeam evaluate --tasks` on a small decoder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import transbeam
from tests.harness.stages import copy_of, stage
from tests.small_run import paragraphs
from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.pipeline.stage import data
from transbeam.trainer.run import train
from transbeam.trainer.tasks.tasks_command import evaluate_tasks

YAML = """
name: decoder
data: {source: {kind: text, path: FOLDER/corpus.txt}, sequence_length: 32}
tokenizer: {kind: byte_bpe, vocabulary_size: 300}
objective: {kind: causal}
model:
  kind: decoder
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 32
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training: {steps: 2, batch_size: 4, schedule: {warmup_steps: 1}, samples: 0}
"""
TASKS = r"""
name: words
shots: [1, 0]
tasks:
- kind: choice
  name: moods
  source: {kind: csv, path: "FOLDER/moods.csv", columns: {text: text, label: mood}}
  prompt: "{text}:"
  choices: [{label: "1", text: good}, {label: "0", text: bad}]
  unconditional_prompt: ":"
- kind: generation
  name: moods / written
  source: {kind: csv, path: "FOLDER/moods.csv", columns: {target_text: mood}}
  prompt: "{text}:"
  max_new_tokens: 3
  scores: [exact_match]
  shots: [0]
- kind: perplexity
  name: books
  source: {kind: csv, path: "FOLDER/moods.csv"}
"""


ENCODER_DECODER = """
name: encoder-decoder
data:
  source: {kind: csv, path: FOLDER/moods.csv, columns: {text: text, label: mood}}
  validation_fraction: 0.3
  sequence_length: 32
tokenizer: {kind: byte_bpe, vocabulary_size: 260}
objective:
  {kind: text_to_text, source: "{text}:", target: "{label}", decoder_length: 8}
model:
  kind: seq2seq
  num_layers: 1
  num_decoder_layers: 1
  hidden_dim: 16
  max_sequence_length: 32
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training: {steps: 2, batch_size: 2, schedule: {warmup_steps: 1}, samples: 0}
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    rows = "".join(f"a text of {n},{n % 2}\n" for n in range(9))
    (tmp_path / "moods.csv").write_text(f"text,mood\n{rows}an odd one,7\n", "utf-8")
    (tmp_path / "tasks.yaml").write_text(
        TASKS.replace("FOLDER", str(tmp_path)), "utf-8"
    )
    return tmp_path


def make_decoder(folder: Path) -> None:
    (folder / "corpus.txt").write_text("\n\n".join(paragraphs(60)), "utf-8")
    make_run(folder, YAML)


def make_run(folder: Path, yaml: str) -> None:
    (folder / "run.yaml").write_text(yaml.replace("FOLDER", str(folder)), "utf-8")
    given = Invocation(
        config=load_run(folder / "run.yaml"),
        config_file=folder / "run.yaml",
        overrides=(),
        run_folder=folder / "run",
        console=Console(quiet=True),
        workers=1,
    )
    data(given)
    train(given)


def invocation(folder: Path, **keys: Any) -> Invocation:
    run = folder / "run"
    if not run.exists():
        copy_of(stage("tasks-decoder", make_decoder) / "run", run)
    return Invocation(
        config=replace(load_run(run), **keys),
        config_file=run,
        overrides=(),
        run_folder=run,
        console=Console(quiet=True),
        workers=1,
    )


@eagerly
def test_results_of_each_task_and_number_of_shots(folder, capsys):
    found = evaluate_tasks(invocation(folder), folder / "tasks.yaml")
    results = {(row["task"], row["shots"]): row for row in found["results"]}
    assert list(results) == [
        ("moods", 0),
        ("moods", 1),
        ("moods / written", 0),
        ("books", 0),
    ]
    choice = results["moods", 1]
    assert list(choice["scores"]) == [
        "accuracy",
        "accuracy_per_token",
        "accuracy_per_character",
        "accuracy_per_byte",
        "accuracy_over_unconditional",
    ]
    assert choice["baselines"] == {"chance": 0.5, "most_frequent": 5 / 9}
    assert [row["units"] for row in results.values()] == [9, 9, 10, 10]
    written = Path(found["path"])
    assert json.loads((written / "scores.json").read_text("utf-8")) == found
    assert {path.name for path in written.glob("*.jsonl")} == {
        "moods-0.jsonl",
        "moods-1.jsonl",
        "moods___written-0.jsonl",
        "books-0.jsonl",
    }
    page = (written / "report.html").read_text("utf-8")
    assert "scores of moods against the number of shots" in page
    assert found["summary"].splitlines()[1].startswith("moods            accuracy")
    said = capsys.readouterr().err
    assert "left out of moods: 1 documents: label '7' is no choice" in said


@eagerly
def test_choices_that_cannot_be_ranked_are_left_out_and_counted(folder):
    rows = ["text,one,two,right", "fine,a,b,0", "alike,a,a,0", f"long,a,{'x' * 99},0"]
    (folder / "own.csv").write_text("\n".join(rows), "utf-8")
    tasks = f"""
name: own
tasks:
- kind: choice
  name: own
  source:
    kind: csv
    path: "{folder}/own.csv"
    columns: {{text: text, choices: [one, two], label: right}}
  prompt: "{{text}}:"
"""
    (folder / "own.yaml").write_text(tasks, "utf-8")
    (row,) = evaluate_tasks(invocation(folder), folder / "own.yaml")["results"]
    assert row["units"] == 1
    assert row["left_out"] == {
        "two equal choices": 1,
        "an answer of more than 32 tokens": 1,
    }


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (
            ClassificationConfig(labels=("a", "b")),
            "objective.kind=classification: tasks are for models that answer in words",
        ),
        (PrefixConfig(), "task 'books': objective.kind=prefix reads the beginning"),
    ],
)
def test_models_that_cannot_do_the_tasks(folder, objective, message):
    with pytest.raises(UserError, match=message):
        evaluate_tasks(invocation(folder, objective=objective), folder / "tasks.yaml")


@eagerly
def test_an_encoder_decoder_reads_prompts_and_writes_answers(folder):
    make_run(folder, ENCODER_DECODER)
    with pytest.raises(UserError, match="text_to_text reads the beginning"):
        evaluate_tasks(invocation(folder), folder / "tasks.yaml")
    tasks = (folder / "tasks.yaml").read_text("utf-8")
    without_books = tasks[: tasks.index("- kind: perplexity")]
    (folder / "tasks.yaml").write_text(without_books, "utf-8")
    found = evaluate_tasks(invocation(folder), folder / "tasks.yaml")
    results = {(row["task"], row["shots"]): row for row in found["results"]}
    assert [row["units"] for row in results.values()] == [9, 9, 10]
    lines = (Path(found["path"]) / "moods-1.jsonl").read_text("utf-8").splitlines()
    scores = [json.loads(line)["log_likelihoods"] for line in lines]
    assert all(len(of) == 2 and max(of) < 0 for of in scores)
    assert len(set(map(tuple, scores))) == 9


@pytest.mark.parametrize("other", [["--test"], ["--model", "export"]])
def test_tasks_are_put_to_the_own_model_alone(folder, capsys, other):
    words = ["evaluate", str(folder), "--tasks", "tasks.yaml", *other]
    assert transbeam.main(words) == 2
    assert f"--tasks and {other[0]}: tasks bring" in capsys.readouterr().err


def test_a_wrong_file_of_tasks_ends_the_command(folder, capsys):
    invocation(folder)
    (folder / "tasks.yaml").write_text("name: x\n", "utf-8")
    words = ["evaluate", str(folder / "run"), "--tasks", str(folder / "tasks.yaml")]
    assert transbeam.main(words) == 2
    assert (
        "tasks.yaml:1: tasks: this required key is missing" in capsys.readouterr().err
    )
