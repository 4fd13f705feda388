"""`transbeam check` shows a configuration as one file, and where each key is from."""

import json
from pathlib import Path

import pytest

from tests.finished_runs import imported_run
from transbeam.configs.loader.resolved_file import (
    key_origins,
    resolved_file,
    takes_from_elsewhere,
)
from transbeam.configs.loader.yaml_config import load_resolved, load_run, parse_run
from transbeam.model.__main__ import main

CONFIGS = Path(__file__).parents[3] / "configs"
BASE = """\
data:
  source:
    kind: mixture
    parts:
      - {source: {kind: text, path: "a # b.txt"}, weight: 2}
      - {source: {kind: text, path: c.txt}}
training: {steps: 5}
"""
OWN = """\
extends: base.yaml
name: own
export: {examples: ["A [MASK].", "\\u2028[MASK]"], tflite: []}
model: {init_from: runs/there, position:}
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    there = "model: {dropout: 0.2, hidden_dim: 48, position: {kind: rope}}\n"
    text = BASE + "name: there\n" + there
    imported_run(Path("runs/there"), parse_run(text, "there.yaml"))
    Path("base.yaml").write_text(BASE)
    Path("own.yaml").write_text(OWN)
    return Path("own.yaml")


def test_each_key_with_its_place(own) -> None:
    run = load_resolved(own, ["seed=3", "data.source.parts.1.weight=4"])
    lines = resolved_file(run).splitlines()
    written = {" ".join(line.split()) for line in lines}
    assert written >= {
        "name: own # own.yaml:2",
        "seed: 3 # --set seed=3",
        "path: 'a # b.txt' # base.yaml:5",
        "weight: 4.0 # --set data.source.parts.1.weight=4",
        "kind: pretrained # own.yaml:4",
        "path: runs/there/imported/tokenizer # own.yaml:4",
        "init_from: runs/there # own.yaml:4",
        "steps: 5 # base.yaml:7",
        '- "\\L[MASK]" # own.yaml:3',
        "tflite: [] # own.yaml:3",
    }
    # The named line of the named file has the key.
    dropout = next(line for line in lines if line.startswith("  dropout: 0.2 "))
    file, _, number = dropout.partition("# ")[2].partition(":")
    there = Path(file).read_text().splitlines()
    assert there[int(number) - 1] == "  dropout: 0.2"
    assert not any("preset" in line or "extends" in line for line in lines)


def test_the_text_loads_as_the_same_run_without_the_other_files(own) -> None:
    run = load_resolved(own)
    text = resolved_file(run)
    for file in ("base.yaml", "runs/there/run.yaml"):
        Path(file).unlink()
    assert parse_run(text, "text.yaml", with_model=True) == run.config


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("tiny/*.yaml")), ids=str)
def test_shipped_files_as_they_are(path: Path) -> None:
    run = load_resolved(path)
    assert not takes_from_elsewhere(run)
    assert parse_run(resolved_file(run), "text.yaml") == run.config
    assert {place.rpartition(":")[0] for place in key_origins(run).values()} == {
        str(path)
    }


def test_check_shows_it_where_keys_are_from_elsewhere(own, capsys) -> None:
    assert main(["check", "own.yaml"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "# Each key that is given, and the line that it is from.\nnam"
    )
    assert "\n\nown.yaml is right: it describes the run 'own'.\n" in out
    assert main(["check", "own.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["places"]["training.steps"] == "base.yaml:7"
    assert told["places"]["data.source.parts[0].weight"] == "base.yaml:5"
    assert told["model"]["dropout"] == 0.2
    assert main(["check", str(CONFIGS / "demo.yaml"), "--set", "seed=3"]) == 0
    assert capsys.readouterr().out.startswith(f"{CONFIGS / 'demo.yaml'} is right")


def test_check_of_a_run_that_is_not_there(own, capsys) -> None:
    assert main(["check", "own.yaml", "--set", "model.init_from=runs/gone"]) == 2
    assert "model.init_from: runs/gone: has no trained model" in capsys.readouterr().err
    assert load_run(own).training.init_from == "runs/there"
