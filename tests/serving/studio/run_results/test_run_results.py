"""Results of a run, panel by panel: whole, missing, damaged."""

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from tests.serving.studio.run_results.sample_results import (
    HOSTILE,
    PARITY,
    analysis_line,
    write_json_file,
    write_sample_results,
)
from transbeam.configs.loader.run_folder import Stage
from transbeam.serving.studio.run_results import schemas
from transbeam.serving.studio.run_results.run_results import PANELS, read_run_results


@pytest.fixture
def run(tmp_path):
    return write_sample_results(tmp_path / "a")


def read(folder: Path):
    found = read_run_results(folder, "a")
    jsonschema.validate(found, schemas.RUN_RESULTS)
    json.dumps(found, allow_nan=False)
    return found


def states(found):
    return {stage["name"]: stage["state"] for stage in found["stages"]}


def test_a_whole_run(run):
    found = read(run)
    assert set(states(found).values()) == {"finished"}
    data = found["data"]["found"]
    assert (data["source_bytes"], data["source_files"]) == (100, 2)
    assert data["splits"][0]["padding"] == 0.25
    assert data["documents"][-1] == {"fate": "filtered", "reason": HOSTILE, "count": 1}
    assert data["labels"] == [{"label": HOSTILE, "train": 3, "validation": 1}]
    assert data["lengths"] == [
        {"split": "train", "step": 1, "longest": 2, "counts": [0, 2, 1]}
    ]
    training = found["training"]["found"]
    assert (training["parameters"], training["report"]) == (120, "training/report.html")
    [evaluation] = found["evaluation"]["found"]["evaluations"]
    assert evaluation["name"] == "validation"
    assert [score["score"] for score in evaluation["scores"]] == [0.5, None]
    assert evaluation["examples"][0]["text"] == HOSTILE
    assert evaluation["confusions"] == {
        "labels": ["a", HOSTILE],
        "counts": [[3, 1], [2, 4]],
        "errors": [
            {"target": HOSTILE, "guess": "a", "count": 2},
            {"target": "a", "guess": HOSTILE, "count": 1},
        ],
    }
    assert found["heads"]["found"] == {
        "steps": [1, 2],
        "idle_heads": [1, 1],
        "statistics": [
            {
                "name": "entropy",
                "rows": [f"encoder_layer_0/self_attention, {n}" for n in (0, 1)],
                "columns": [[2.5, 2.0], [1.5, 0.5]],
            },
            {
                "name": "participation_ratio",
                "rows": ["encoder_layer_0"],
                "columns": [[8.5], [8.5]],
            },
        ],
    }
    assert len(evaluation["examples"][1]["text"]) < 3000
    exports = found["exports"]["found"]
    assert [form["bytes"] for form in exports["forms"]] == [100, 50, 25]
    assert exports["forms"][2]["latencies"][1] == {
        "threads": "1",
        "tokens": "64",
        "ms": 0.5,
    }
    assert exports["checks"] == [{"target": "export", **check} for check in PARITY]
    [part] = found["analysis"]["found"]["parts"]
    assert part["figures"] == [
        {"file": "analysis/heads_entropy.svg", "caption": "entropy"}
    ]
    assert found["sweep"] == {"found": None, "error": None, "command": None}


def test_a_run_of_which_nothing_is_made_names_the_commands(tmp_path):
    found = read(tmp_path)
    assert set(states(found).values()) == {"missing"}
    assert found["evaluation"] == {
        "found": None,
        "error": None,
        "command": f"transbeam evaluate {tmp_path}",
    }
    assert all(found[panel]["found"] is None for panel in PANELS)


def test_a_training_that_is_not_finished(tmp_path):
    Stage(tmp_path, "training", "transbeam train").begin({"steps": 3})
    found = read(tmp_path)
    assert states(found)["training"] == "unfinished"
    assert found["training"]["found"] == {"is_imported": False, "is_finished": False}


def test_an_imported_run(tmp_path):
    for name in ("data", "training"):
        stage = Stage(tmp_path, name, "transbeam import")
        stage.begin({})
        stage.finish({}, {"imported": True})
    found = read(tmp_path)
    assert states(found)["data"] == "imported"
    assert found["data"]["found"] == {"is_imported": True}
    assert found["training"]["found"] == {"is_imported": True, "is_finished": True}


def test_scores_of_the_training_stand_in_for_an_evaluation(run):
    (run / "evaluation/validation/scores.json").unlink()
    found = read(run)
    [evaluation] = found["evaluation"]["found"]["evaluations"]
    assert (evaluation["name"], evaluation["numbers"]["loss"]) == ("training", 1.25)
    assert evaluation["scores"][0]["high"] is None


def test_an_evaluation_of_an_export_has_differences(run):
    file = run / "evaluation/validation/scores.json"
    scores = json.loads(file.read_text()) | {"differences": {"accuracy": -0.25}}
    write_json_file(run / "evaluation/of-int8/validation/scores.json", scores)
    own, exported = read(run)["evaluation"]["found"]["evaluations"]
    assert exported["name"] == "of-int8/validation"
    assert exported["scores"][0]["difference"] == -0.25
    assert own["scores"][0]["difference"] is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"scores": 3}', b"\xff\xfe", b"[" * 100_000, b"null"],
)
@pytest.mark.parametrize(
    ("file", "panel"),
    [
        ("data/manifest.json", "data"),
        ("data/statistics.json", "data"),
        ("data/stage.json", "data"),
        ("training/stage.json", "training"),
        ("evaluation/validation/scores.json", "evaluation"),
        ("evaluation/validation/errors.jsonl", "evaluation"),
        ("export/stage.json", "exports"),
        ("phone/stage.json", "exports"),
        ("analysis/analysis.json", "analysis"),
    ],
)
def test_damage_concerns_one_panel(run, file, panel, content):
    (run / file).write_bytes(content)
    found = read(run)
    damaged = {name for name in PANELS if found[name]["error"] is not None}
    harmless = {
        "data/statistics.json": (b'{"scores": 3}',),
        "evaluation/validation/errors.jsonl": (b"", b'{"scores": 3}'),
        "analysis/analysis.json": (b'{"scores": 3}',),
    }
    if content in harmless.get(file, ()):
        assert damaged == set()
    else:
        assert damaged == {panel}
        assert file.rpartition("/")[2] in found[panel]["error"]


def test_values_of_other_types_are_damage(run):
    stage = Stage(run, "export", "transbeam export")
    result = stage.load()["result"]
    for changes in (
        {"parity": 3},
        {"parity": [{"form": "a", "check": "b", "value": "<b>", "passed": True}]},
        {"tflite": {"int8": {"bytes": [1]}}},
        {"scores": {"accuracy": "high"}},
    ):
        stage.finish(stage.inputs(), {**result, **changes})
        assert "export" in read(run)["exports"]["error"]


def test_a_file_that_is_a_folder_or_has_no_permission_is_damage(run):
    file = run / "analysis/analysis.json"
    file.unlink()
    file.mkdir()
    assert read(run)["analysis"]["found"] is None
    (run / "data/manifest.json").unlink()
    assert "cannot be read" in read(run)["data"]["error"]


def test_many_analyses_of_a_training_are_spread(run):
    lines = [analysis_line(step, float(step)) for step in range(1000)]
    # The last one is being written.
    log = "".join(lines) + analysis_line(1000, 0.0)[:-9]
    (run / "training/analysis.jsonl").write_text(log)
    found = read(run)["heads"]["found"]
    steps = found["steps"]
    assert (len(steps), steps[0], steps[-1]) == (64, 0, 999)
    assert found["statistics"][0]["columns"] == [[step] for step in steps]
    assert {b - a for a, b in pairwise(steps)} <= {15, 16}


@pytest.mark.parametrize("other", [(2.5,), (2.5, "a"), (2.5, None), 3])
def test_an_analysis_of_other_heads_is_damage(run, other):
    lines = [analysis_line(1, *other) if other != 3 else "3\n", analysis_line(2, 1, 2)]
    (run / "training/analysis.jsonl").write_text("".join(lines))
    found = read(run)
    assert found["heads"]["found"] is None
    assert "analysis.jsonl" in found["heads"]["error"]
    assert found["training"]["error"] is None


def test_of_many_classes_only_the_largest_errors_are_shown(run):
    file = run / "evaluation/validation/scores.json"
    labels = [f"class {n}" for n in range(40)]
    counts = [[row + column for column in range(40)] for row in range(40)]
    confusions = {"labels": labels, "counts": counts}
    write_json_file(file, json.loads(file.read_text()) | {"confusions": confusions})
    [evaluation] = read(run)["evaluation"]["found"]["evaluations"]
    assert evaluation["confusions"]["counts"] is None
    errors = evaluation["confusions"]["errors"]
    assert [len(errors), errors[0]] == [
        20,
        {"target": "class 38", "guess": "class 39", "count": 77},
    ]


def test_the_table_of_a_sweep(run):
    runs = [
        {"run": f"elsewhere/{name}", "replaced": [HOSTILE], "error": error, "loss": 2.0}
        for name, error in (("a", None), ("b", HOSTILE))
    ]
    table = run.parent / "sweep.json"
    write_json_file(table, {"name": "peaks", "runs": runs})
    sweep = read(run)["sweep"]["found"]
    assert [row["is_this"] for row in sweep["runs"]] == [True, False]
    write_json_file(table, {"name": "peaks", "runs": runs[1:]})
    assert read(run)["sweep"]["found"] is None
    table.write_text("{")
    assert "sweep.json" in read(run)["sweep"]["error"]
