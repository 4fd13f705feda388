"""`transbeam analyze`: from a run to its analysis; errors leave all as it was."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.trainer.analysis.models import imported_run
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.trainer import __main__ as trainer
from transbeam.trainer.analysis.analyze_arguments import AnalyzeArguments
from transbeam.trainer.analysis.analyze_command import analyze_run
from transbeam.trainer.analysis.base.analysis_files import FINGERPRINT, read_summary
from transbeam.trainer.analysis.base.analyzed_model import load_analyzed_model

# Nothing here is about the graphs in which the numbers are computed.
pytestmark = [
    pytest.mark.usefixtures("no_graphs"),
    pytest.mark.filterwarnings("ignore:Even though the .tf.config:UserWarning"),
]


@pytest.fixture
def run(small_trained, tmp_path):
    return shutil.copytree(small_trained, tmp_path / "run")


def analyze(run, **arguments):
    arguments = {"parts": ("heads",), "quiet": True, "max_texts": 8, **arguments}
    return analyze_run(AnalyzeArguments(run_folder=run, **arguments))


def test_files_of_a_run(run, capsys):
    words = ["analyze", str(run), "--part", "heads", "--max-texts", "8", "--json"]
    assert trainer.main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["parts"]) == {"heads"}
    assert printed["kept"] == []
    summary = read_summary(run / "analysis")
    assert summary is not None
    assert [part["texts"] for part in summary["parts"]] == ["8 of validation"]
    assert summary[FINGERPRINT] == load_analyzed_model(run, None).fingerprint
    metrics = pq.read_table(run / "analysis/heads_metrics.parquet")
    assert set(metrics["layer"].to_pylist()) == {"encoder_layer_0/self_attention"}
    assert "<svg" in (run / "analysis/report.html").read_text("utf-8")


def test_texts_of_a_file(run, tmp_path, capsys):
    file = tmp_path / "texts.txt"
    file.write_text("the model\n" + "reads a batch of tokens " * 30, "utf-8")
    analyze(run, texts=file)
    assert "1 texts are longer than the model's 32 tokens" in capsys.readouterr().err
    summary = read_summary(run / "analysis")
    assert summary is not None
    assert [part["texts"] for part in summary["parts"]] == ["2 of texts.txt"]


def test_an_error_leaves_the_parts_before_it(run):
    patch = ("the model [MASK]", "the loss [MASK]", "model", "two words")
    with pytest.raises(DataError, match="an answer must be a single token"):
        analyze(run, parts=("heads", "patching"), patch=patch)
    summary = read_summary(run / "analysis")
    assert summary is not None
    assert [part["name"] for part in summary["parts"]] == ["heads"]


def test_a_checkpoint_has_an_analysis_of_its_own(run):
    analyze(run, checkpoint=2)
    summary = read_summary(run / "analysis")
    assert summary is not None
    assert summary["checkpoint"] == 2
    assert summary[FINGERPRINT] == load_analyzed_model(run, 2).fingerprint
    assert summary[FINGERPRINT] != load_analyzed_model(run, None).fingerprint


def test_an_imported_model_needs_texts(small_trained, tmp_path):
    run = imported_run(small_trained, tmp_path / "run")
    with pytest.raises(DataError, match="has no records to analyze the model on"):
        analyze(run)
    assert not (run / "analysis").exists()
    file = tmp_path / "texts.txt"
    file.write_text("the model reads a batch", "utf-8")
    assert analyze(run, texts=file)["parts"].keys() == {"heads"}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("head", r"--part=head: there is no such part\. Did you mean 'heads'"),
        ("patching", "--part=patching: needs --patch CLEAN CORRUPTED RIGHT WRONG"),
    ],
)
def test_parts_that_cannot_be_made(run, part, message):
    with pytest.raises(ConfigError, match=message):
        analyze(run, parts=(part,))
    assert not (run / "analysis").exists()


def test_ablation_needs_the_head(small_trained, tmp_path):
    run = imported_run(small_trained, tmp_path / "run")
    with pytest.raises(ConfigError, match="needs the records of a trained run"):
        analyze(run, parts=("ablation",))


def test_no_run(tmp_path):
    with pytest.raises(ArtifactError, match="has no trained model"):
        analyze(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "options", [{"sparsity_threshold": 0.0}, {"sparsity_threshold": 1.5}]
)
def test_out_of_range(run, options):
    with pytest.raises(ConfigError, match="sparsity_threshold="):
        analyze(run, **options)
    assert not (run / "analysis").exists()
