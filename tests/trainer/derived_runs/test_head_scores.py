"""Heads chosen by scores of an analysis: which are kept, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness.stages import copy_of
from tests.trainer.conftest import trained_run
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.model_files import find_model_weights
from transbeam.pipeline.records.manifest import sha256
from transbeam.trainer.derived_runs.head_scores import read_head_scores

LAYER = "encoder_layer_0/self_attention"
HEADS = {LAYER: 4}
SMALL = ("model.attention.num_heads=4", "training.steps=2")


@pytest.fixture
def analyzed(tmp_path) -> Path:
    """A trained run with an analysis: an ablation, and two metrics."""
    folder = tmp_path / "old"
    copy_of(trained_run("four-heads", *SMALL), folder)
    write_analysis(folder, sha256(find_model_weights(folder)))
    return folder


def write_analysis(run_folder: Path, fingerprint: str) -> None:
    folder = run_folder / "analysis"
    folder.mkdir()
    summary = {"weights_fingerprint": fingerprint, "parts": []}
    (folder / "analysis.json").write_text(json.dumps(summary))
    # The layer as a whole has a row without a head.
    changes = {
        "layer": [LAYER] * 5,
        "head": [3, 2, 1, 0, None],
        "change": [0.4, -0.1, 0.2, 0.1, 9.0],
    }
    pq.write_table(pa.table(changes), folder / "ablation_changes.parquet")
    metrics = {
        "layer": [LAYER] * 8,
        "head": [0, 1, 2, 3] * 2,
        "metric": ["entropy"] * 4 + ["confidence"] * 4,
        "mean": [0.1, 0.2, 0.3, 0.4, 0.9, 0.8, 0.7, 0.6],
    }
    pq.write_table(pa.table(metrics), folder / "heads_metrics.parquet")


def edit(path: Path, column: str, values: list) -> None:
    table = pq.read_table(path)
    number = table.schema.get_field_index(column)
    pq.write_table(table.set_column(number, column, pa.array(values)), path)


def test_scores_by_head(analyzed):
    found = read_head_scores(analyzed, "ablation", HEADS)
    assert {layer: x.tolist() for layer, x in found.items()} == {
        LAYER: [0.1, 0.2, -0.1, 0.4]
    }
    found = read_head_scores(analyzed, "confidence", HEADS)
    assert found[LAYER].tolist() == [0.9, 0.8, 0.7, 0.6]


@pytest.mark.parametrize(
    ("score", "kept", "means"),
    [
        ("ablation", [1, 3], {"kept": 0.3, "removed": 0.0}),
        ("entropy", [2, 3], {"kept": 0.35, "removed": 0.15}),
        ("confidence", [0, 1], {"kept": 0.85, "removed": 0.65}),
    ],
)
def test_the_highest_are_kept(analyzed, command, tmp_path, score, kept, means):
    new = tmp_path / "new"
    words = ("prune", analyzed, "--run", new, "--heads", 2, "--by", score)
    result = command(*words)
    assert result["code"] == 0
    assert result["kept_heads"] == {LAYER: kept}
    assert result["scores"] == pytest.approx({"by": score, **means}, abs=1e-9)
    assert result["importance_gone"] == {}
    assert f"mean {score} of the heads" in result["summary"]
    assert command(*words)["skipped"]


def test_another_analysis_makes_another_run(analyzed, command, tmp_path):
    words = ("prune", analyzed, "--run", tmp_path / "new", "--heads", 1)
    words += ("--by", "ablation")
    assert command(*words)["kept_heads"] == {LAYER: [3]}
    changes = [0.0, 0.1, 0.2, 0.3, 0.0]  # of heads 3 to 0
    edit(analyzed / "analysis/ablation_changes.parquet", "change", changes)
    assert command(*words)["kept_heads"] == {LAYER: [0]}


def test_units_are_still_chosen_by_gradients(analyzed, command, tmp_path):
    words = ("prune", analyzed, "--run", tmp_path / "new", "--heads", 2)
    words += ("--intermediate", 8, "--batches", 1, "--by", "ablation")
    result = command(*words)
    assert result["kept_heads"] == {LAYER: [1, 3]}
    assert result["importance_gone"].keys() == {"heads", "units"}


def test_no_gradient_is_needed_for_heads_alone(
    analyzed, command, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "transbeam.trainer.derived_runs.prune_command.measure", pytest.fail
    )
    words = ("prune", analyzed, "--run", tmp_path / "new", "--heads", 2)
    assert command(*words, "--by", "entropy")["code"] == 0


def test_an_unknown_score_names_those_that_are_there(analyzed):
    with pytest.raises(ConfigError) as error:
        read_head_scores(analyzed, "entrophy", HEADS)
    assert "Did you mean 'entropy'?" in str(error.value)
    assert "Scores: ablation, confidence, entropy, gradient" in str(error.value)


def test_an_analysis_of_other_weights(analyzed):
    file = analyzed / "analysis/analysis.json"
    file.write_text(json.dumps({"weights_fingerprint": "0" * 64, "parts": []}))
    with pytest.raises(ArtifactError, match="is of other weights than") as error:
        read_head_scores(analyzed, "ablation", HEADS)
    assert f"`transbeam analyze {analyzed}`" in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("analysis.json", None, "analysis.json: missing or damaged"),
        ("analysis.json", "{", "analysis.json: missing or damaged"),
        ("ablation_changes.parquet", None, "ablation_changes.parquet: cannot be read"),
        ("ablation_changes.parquet", "PAR1", "cannot be read"),
    ],
)
def test_files_that_are_missing_or_damaged(analyzed, file, content, said):
    path = analyzed / "analysis" / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ArtifactError, match=said):
        read_head_scores(analyzed, "ablation", HEADS)


def test_a_table_without_a_column(analyzed):
    path = analyzed / "analysis/ablation_changes.parquet"
    pq.write_table(pq.read_table(path).drop_columns("change"), path)
    with pytest.raises(ArtifactError, match=r"cannot be read: .*change"):
        read_head_scores(analyzed, "ablation", HEADS)


@pytest.mark.parametrize(
    ("column", "values", "head"),
    [
        ("head", [3, 2, 1, 4, None], 0),
        ("layer", ["encoder_layer_1/self_attention"] * 5, 0),
        ("change", [0.4, np.nan, 0.2, 0.1, 9.0], 2),
    ],
)
def test_heads_without_a_score(analyzed, column, values, head):
    edit(analyzed / "analysis/ablation_changes.parquet", column, values)
    with pytest.raises(ArtifactError, match=f"has no number for head {head} of"):
        read_head_scores(analyzed, "ablation", HEADS)


def test_a_score_without_a_number_of_heads(analyzed, command, tmp_path):
    words = ("prune", analyzed, "--run", tmp_path / "new", "--intermediate", 8)
    result = command(*words, "--by", "ablation")
    assert result["code"] == 2
    assert "--by=ablation: chooses heads, and all heads are kept" in result["error"]
