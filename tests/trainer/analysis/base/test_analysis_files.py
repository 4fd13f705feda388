"""Files of an analysis: complete or as before, and readable without the program."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.safetensors_store import read_weights
from transbeam.pipeline.pages.pictures import new_figure
from transbeam.trainer.analysis.base.analysis_files import read_summary, write_analysis
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart


def part(name: str, summary: str = "Nothing & <b>more</b>.") -> AnalysisPart:
    figure, axes = new_figure(2)
    axes.plot([1, 2], label="a < b")
    axes.legend()
    return AnalysisPart(
        name=name,
        title=name.title(),
        summary=summary,
        numbers={"number": 1.5},
        tables={"rows": pa.table({"head": [0, 1]})},
        figures={"curve": figure},
        weights={"tuned": {"layer_0/kernel": np.eye(2, dtype="float32")}},
        notes=("No flow: 3 texts are too long.",),
    )


def write(folder, *parts, weights="a"):
    facts = {"run": "small", "weights_fingerprint": weights}
    return [write_analysis(folder, one, "8 of validation", facts) for one in parts]


def test_every_file(tmp_path):
    folder = tmp_path / "analysis"
    assert write(folder, part("heads")) == [[]]
    assert json.loads((folder / "heads.json").read_text()) == {"number": 1.5}
    assert pq.read_table(folder / "heads_rows.parquet")["head"].to_pylist() == [0, 1]
    weights = read_weights(folder / "heads_tuned.safetensors")
    np.testing.assert_array_equal(weights["layer_0/kernel"], np.eye(2))
    with Image.open(folder / "heads_curve.png") as image:
        assert image.width > 1000
    picture = ET.parse(folder / "heads_curve.svg").getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    page = (folder / "report.html").read_text("utf-8")
    for text in (
        "Analysis of small",
        "8 of validation",
        "Nothing &amp; &lt;b&gt;",
        "<svg",
        "3 texts are too long",
    ):
        assert text in page
    assert "src=" not in page
    assert [path.name for path in tmp_path.iterdir()] == ["analysis"]


def test_parts_of_the_same_weights_are_kept(tmp_path):
    folder = tmp_path / "analysis"
    write(folder, part("flow"), part("heads", "Old."))
    assert write(folder, part("heads", "New.")) == [["flow"]]
    summary = read_summary(folder)
    assert summary is not None
    assert {p["name"]: p["summary"][:3] for p in summary["parts"]} == {
        "flow": "Not",
        "heads": "New",
    }
    page = (folder / "report.html").read_text("utf-8")
    assert page.count("<figure>") == 2
    assert (folder / "flow_rows.parquet").is_file()


def test_parts_keep_their_order(tmp_path):
    folder = tmp_path / "analysis"
    write(folder, part("heads"), part("flow"), part("heads", "New."))
    summary = read_summary(folder)
    assert summary is not None
    assert [one["name"] for one in summary["parts"]] == ["heads", "flow"]


def test_further_folders_are_kept(tmp_path):
    folder = tmp_path / "analysis"
    write(folder, part("flow"))
    (folder / "projector").mkdir()
    (folder / "projector/metadata.tsv").write_text("the")
    write(folder, part("heads"))
    assert (folder / "projector/metadata.tsv").read_text() == "the"


@pytest.mark.parametrize("lost", ["flow_curve.svg", "analysis.json"])
def test_damaged_parts_are_not_kept(tmp_path, lost):
    folder = tmp_path / "analysis"
    write(folder, part("flow"))
    (folder / lost).unlink()
    assert write(folder, part("heads")) == [[]]


def test_parts_of_other_weights_go(tmp_path):
    folder = tmp_path / "analysis"
    write(folder, part("flow"))
    assert write(folder, part("heads"), weights="b") == [[]]
    assert not (folder / "flow.json").exists()


def test_what_cannot_be_written_leaves_the_earlier_analysis(tmp_path, monkeypatch):
    folder = tmp_path / "analysis"
    write(folder, part("flow"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    full = OSError(28, "No space left on device")

    def fail(*_):
        raise full

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(ArtifactError, match="no space"):
        write(folder, part("flow", "New."))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_no_summary(tmp_path):
    assert read_summary(tmp_path) is None
    (tmp_path / "analysis.json").write_text("{")
    assert read_summary(tmp_path) is None
