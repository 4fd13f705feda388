"""A suite: which rows are made, what is repeated, and what is said of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.finished_runs import MINILM, imported_run
from transbeam.configs.base.errors import ArtifactError, DataError, UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.yaml_config import load_run, parse_run
from transbeam.pipeline.stage import data_inputs, data_stage
from transbeam.trainer import planned_runs as module
from transbeam.trainer.base.training_stage import training_inputs
from transbeam.trainer.suite import SuiteOptions, suite

ROW = """\
  - name: {name}
    run:
      data: {{source: {{kind: csv, path: {name}.csv, columns: {{label: l}}}}}}
      objective: {{kind: classification, labels: [a, b]}}
      evaluation: {{test: {{kind: csv, path: {name}-test.csv, columns: {{label: l}}}}}}
    scores: {scores}
"""
SCORES = {
    "one": "{accuracy: validation.accuracy}",
    "two": "{accuracy: validation.accuracy, f1: validation.f1_b}",
    "both": "{matched: validation.accuracy, mismatched: test.accuracy}",
}
FILE = "name: small\nrun: {training: {steps: 200}}\nrows:\n" + "".join(
    ROW.format(name=name, scores=scores) for name, scores in SCORES.items()
)


def interval(score: float) -> dict[str, float]:
    return {"score": score, "low": score - 0.05, "high": score + 0.05}


class Processes:
    """Plays the commands of rows; the validation accuracy of each is in `accuracy`."""

    def __init__(self) -> None:
        self.accuracy = {"one": 0.8, "two": 0.7, "both": 0.6}
        self.commands: list[tuple[str, ...]] = []
        self.fails = ""
        self.stops_at: tuple[str, ...] | None = None

    def __call__(self, words: list[str]) -> tuple[int, str]:
        command, file, _, folder = words[4:8]
        name = Path(folder).name
        self.commands.append((command, name, *(w for w in words if w == "--test")))
        if self.commands[-1] == self.stops_at:
            raise KeyboardInterrupt
        if self.fails == name and command == "train":
            return 2, json.dumps({"error": "no <b>memory</b>"})
        assert Path(file) == Path(folder) / "row.yaml"
        config = load_run(file, with_model=True)
        accuracy = self.accuracy[name]
        if command == "data":
            stage = data_stage(Path(folder))
            inputs = {**data_inputs(config), "corpus": "as it is"}
            counts = {"quarantined": {"no label": 2}}
            stage.begin(inputs)
            stage.finish(inputs, {"records_sha256": "r", "counts": counts})
        elif command == "train":
            stage = training_stage(Path(folder))
            inputs = training_inputs(config, "r", stage.inputs())
            scores = {"accuracy": interval(accuracy), "f1_b": interval(accuracy + 0.1)}
            evaluation = {"loss": 0.5, "scores": scores}
            result = {"evaluation": evaluation, "parameters": 9_000, "seconds": 61.0}
            stage.begin(inputs)
            stage.finish(inputs, {**result, "tokens_per_second": 7})
        else:
            split = "test" if "--test" in words else "validation"
            path = Path(folder) / f"evaluation/{split}/scores.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            scores = {"accuracy": interval(accuracy + 0.2)}
            path.write_text(json.dumps({"scores": scores}))
        return 0, ""


@pytest.fixture
def processes(monkeypatch, tmp_path) -> Processes:
    played = Processes()
    monkeypatch.setattr(module, "run_command", played)
    monkeypatch.chdir(tmp_path)
    for name in SCORES:
        for file in (f"{name}.csv", f"{name}-test.csv"):
            Path(file).write_text("text,l\nx,a\n")
    return played


def run(text: str = FILE, folder: str = "runs", **options: Any) -> dict[str, Any]:
    Path("suite.yaml").write_text(text, "utf-8")
    chosen = SuiteOptions(folder=Path(folder), **options)
    return suite(Path("suite.yaml"), chosen, Console(quiet=True))


def test_means_of_rows_and_the_mean_of_these(processes) -> None:
    result = run()
    means = {row["name"]: row["mean"] for row in result["rows"]}
    # (0.7 + 0.8) / 2 and (0.6 + 0.8) / 2; then (0.8 + 0.75 + 0.7) / 3.
    assert means == pytest.approx({"one": 0.8, "two": 0.75, "both": 0.7})
    assert result["average"] == pytest.approx(0.75)
    both = result["rows"][2]["scores"]
    assert [of["score"] for of in both.values()] == pytest.approx([0.6, 0.8])
    assert result["rows"][0]["left_out"] == 2
    written = json.loads(Path("runs/suite.json").read_text())
    assert {**written, "page": result["page"]} == result
    page = Path(result["page"]).read_text()
    assert "accuracy 0.700 (0.650 to 0.750)<br>f1 0.800 (0.750 to 0.850)" in page
    assert "teacher" not in page
    # What the training has evaluated already is not evaluated again.
    evaluations = [words for words in processes.commands if words[0] == "evaluate"]
    assert evaluations == [("evaluate", "both", "--test")]


def test_finished_rows_are_not_repeated_and_stopped_ones_go_on(processes) -> None:
    processes.stops_at = ("train", "two")
    with pytest.raises(KeyboardInterrupt):
        run()
    assert [row["name"] for row in told()] == ["one"]
    processes.stops_at, processes.commands = None, []
    first = run()
    assert processes.commands[0] == ("data", "two")
    assert {name for _, name, *_ in processes.commands} == {"two", "both"}
    processes.commands = []
    assert run() == first
    assert processes.commands == []


def told() -> list[dict[str, Any]]:
    return json.loads(Path("runs/suite.json").read_text())["rows"]


def test_a_row_with_other_keys_or_scores_is_made_again(processes) -> None:
    run()
    for old, new, again in (
        ("steps: 200", "steps: 300", {"one", "two", "both"}),
        ("{accuracy: validation.accuracy}", "{a: validation.f1_b}", {"one"}),
        ("both-test.csv", "two-test.csv", {"both"}),
    ):
        processes.commands = []
        run(FILE.replace(old, new))
        assert {name for _, name, *_ in processes.commands} == again
        run()
    shutil.rmtree("runs/one/training")
    processes.commands = []
    run()
    assert ("train", "one") in processes.commands


def test_rows_without_files_are_left_out_and_named(processes) -> None:
    Path("two.csv").unlink()
    Path("both-test.csv").unlink()
    Path("one-test.csv").unlink()  # no score of the row is of it
    result = run()
    assert [row["missing"] for row in result["rows"]] == [
        [],
        ["two.csv"],
        ["both-test.csv"],
    ]
    assert result["average"] == pytest.approx(0.8)
    assert "no file two.csv" in Path(result["page"]).read_text()
    # Once they are there, the row is made.
    Path("two.csv").write_text("text,l\nx,a\n")
    processes.commands = []
    assert [row["name"] for row in run()["rows"] if "mean" in row] == ["one", "two"]
    assert {name for _, name, *_ in processes.commands} == {"two"}


def test_a_suite_without_any_files_is_an_error(processes) -> None:
    for path in Path().glob("*.csv"):
        path.unlink()
    with pytest.raises(DataError, match=r"suite.yaml: no row has its files") as error:
        run()
    assert "both: both.csv, both-test.csv" in str(error.value)
    assert not Path("runs").exists()


def test_a_failed_row_does_not_stop_the_others(processes) -> None:
    processes.fails = "one"
    with pytest.raises(UserError, match="1 of 3 rows failed") as error:
        run()
    assert "one: train ended with exit code 2: no <b>memory</b>" in str(error.value)
    assert [row.get("mean") for row in told()][1:] == pytest.approx([0.75, 0.7])
    assert "no &lt;b&gt;memory" in Path("runs/suite.html").read_text()
    processes.fails, processes.commands = "", []
    assert len(run()["rows"]) == 3
    assert {name for _, name, *_ in processes.commands} == {"one"}


def test_a_score_that_does_not_exist_names_those_that_do(processes) -> None:
    text = FILE.replace("validation.f1_b", "validation.f1")
    with pytest.raises(UserError, match=r"no score 'f1' of validation. It has acc"):
        run(text)


def test_rows_begin_with_the_model_of_a_run(processes) -> None:
    imported_run(Path("runs/minilm"), parse_run(MINILM, "minilm.yaml"))
    Path("suite.yaml").write_text(FILE, "utf-8")
    options = SuiteOptions(init=Path("runs/minilm"))
    result = suite(Path("suite.yaml"), options, Console(quiet=True))
    folder = Path("runs/small-minilm")
    assert Path(result["page"]).parent == folder
    for name in SCORES:
        config = load_run(folder / name / "row.yaml", with_model=True)
        assert config.training.init_from == "runs/minilm"


def test_shares_of_a_teachers_scores(processes, capsys) -> None:
    run(folder="runs/teacher")
    processes.accuracy = {"one": 0.76, "two": 0.7, "both": 0.5}
    Path("both.csv").unlink()
    options = SuiteOptions(folder=Path("runs/student"), teacher=Path("runs/teacher"))
    result = suite(Path("suite.yaml"), options, Console())
    shares = [row.get("share") for row in result["rows"]]
    assert shares[:2] == pytest.approx([0.76 / 0.8, 1.0])
    assert shares[2] is None
    # Of the rows that both have: (0.76 + 0.75) / (0.8 + 0.75).
    assert result["teacher"]["share"] == pytest.approx(1.51 / 1.55)
    printed = capsys.readouterr().out
    assert "one   0.760  95.0%  accuracy 0.760 (0.710 to 0.810)" in printed
    assert "average of 2 rows 0.755, 97.4% of the 0.775 of runs/teacher" in printed
    assert "97.4% of the 0.775 of runs/teacher" in Path(result["page"]).read_text()


def test_a_teacher_that_has_no_row_is_refused_at_once(processes) -> None:
    run(folder="runs/teacher")
    processes.commands = []
    with pytest.raises(ArtifactError, match=r"no/suite.json: is not there. --teacher"):
        run(folder="runs/student", teacher=Path("no"))
    for name in SCORES:
        Path(f"x{name}.csv").write_text("text,l\nx,a\n")
        Path(f"x{name}-test.csv").write_text("text,l\nx,a\n")
    renamed = FILE.replace("name: ", "name: x").replace("path: ", "path: x")
    with pytest.raises(
        ArtifactError, match="no row of xsmall is finished there; it has"
    ):
        run(renamed, folder="runs/student", teacher=Path("runs/teacher"))
    Path("runs/teacher/suite.json").write_text("{")
    with pytest.raises(ArtifactError, match="cannot be read"):
        run(folder="runs/student", teacher=Path("runs/teacher"))
    assert processes.commands == []
