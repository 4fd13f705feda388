"""Labels are counted as they are asked for, and one that never occurs is said."""

import json
from dataclasses import replace

import pytest

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.pipeline.stage import data

RUN = """\
name: small
seed: 1
data:
  source: {{kind: labeled_lines, path: "{folder}/*.txt"}}
  sequence_length: 16
  validation_fraction: 0.0
tokenizer: {{kind: byte_bpe, vocabulary_size: 261, specials: roberta}}
objective: {{kind: classification, labels: [a, b, c]}}
model: {{max_sequence_length: 16}}
"""


@pytest.fixture
def invocation(tmp_path):
    (tmp_path / "in.txt").write_text("c x\na yy\nc zz\n")
    file = tmp_path / "run.yaml"
    file.write_text(RUN.format(folder=tmp_path))
    return Invocation(
        config=parse_run(file.read_text(), str(file)),
        config_file=file,
        overrides=(),
        run_folder=tmp_path / "run",
        console=Console(),
        workers=1,
    )


def test_a_class_that_never_occurs_is_said_and_again_when_it_is_done(
    invocation, capsys
):
    said = "warning: objective.labels: training has no example of 'b'. Fix"
    result = data(invocation)
    assert result["label_counts"] == {"train": {"a": 1, "b": 0, "c": 2}}
    assert said in capsys.readouterr().err
    assert data(invocation)["skipped"]
    assert said in capsys.readouterr().err


def test_tags_are_counted_at_the_words(invocation, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("")
    (tmp_path / "in.conll").write_text("xx\tB\nyy\tO\n\nzzz\tO\n")
    text = invocation.config_file.read_text()
    text = text.replace("labeled_lines", "conll").replace("*.txt", "*.conll")
    text = text.replace(
        "classification, labels: [a, b, c]", "token_classification, labels: [O, B, I]"
    )
    result = data(replace(invocation, config=parse_run(text, "run.yaml")))
    assert result["label_counts"] == {"train": {"O": 2, "B": 1, "I": 0}}
    statistics = json.loads((tmp_path / "run/data/statistics.json").read_text())
    assert statistics["train"]["label_counts"] == [2, 1]


def test_an_objective_without_labels_has_no_counts(invocation, capsys):
    text = invocation.config_file.read_text().replace(
        "classification, labels: [a, b, c]", "masked"
    )
    result = data(replace(invocation, config=parse_run(text, "run.yaml")))
    assert result["label_counts"] == {}
    assert "objective.labels" not in capsys.readouterr().err
