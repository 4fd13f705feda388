"""Comparisons of runs, checkpoints and exported files."""

import shutil
from dataclasses import replace

import jsonschema
import pytest

from tests.serving.conftest import TINY, make_run
from tests.serving.studio.checkpoints import keep_checkpoint
from transbeam.configs.schema.attention import LowRankAttentionConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
)
from transbeam.serving.studio.comparison.comparison_schemas import COMPARISON
from transbeam.serving.studio.comparison.comparisons import Comparisons
from transbeam.serving.studio.inspections import Inspections
from transbeam.serving.studio.model_form import ModelForm
from transbeam.serving.studio.run_facts import find_runs
from transbeam.serving.studio.studio_error import StudioError

TEXT = {"text": "returns a [MASK] of the same [MASK]"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, exported):
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(exported.run_folder, folder / "tiny")
    keep_checkpoint(folder / "tiny", 5)
    keep_checkpoint(folder / "tiny", 10, change=0)
    low_rank = LowRankAttentionConfig(num_heads=2, rank=4)
    deep = replace(TINY, model=replace(TINY.model, num_layers=3))
    for name, config in {
        "deep": deep,
        "low_rank": replace(TINY, model=replace(TINY.model, attention=low_rank)),
        "classes": replace(TINY, objective=ClassificationConfig(labels=("a", "b"))),
        "pairs": replace(
            TINY,
            objective=PairClassificationConfig(labels=("a", "b")),
            export=replace(TINY.export, examples=()),
            model=replace(TINY.model, num_segments=2),
        ),
    }.items():
        make_run(folder / name, config)
    return folder


@pytest.fixture(scope="module")
def comparisons(folders):
    runs = find_runs(sorted(folders.iterdir()))
    return Comparisons(Inspections(runs))


@pytest.fixture(scope="module")
def compare(comparisons):
    def compare(a, b, texts=TEXT):
        found = comparisons.compare(a, b, texts)
        jsonschema.validate(found, COMPARISON)
        return found

    return compare


def differences(found):
    maps = [
        h for group in found["maps"]["groups"] for of in group["layers"] for h in of
    ]
    return [p["difference"] for p in found["answers"]["predictions"]], maps


@pytest.mark.parametrize("other", [None, 10])
def test_the_same_weights_have_no_difference(other, compare):
    found = compare(ModelForm("tiny"), ModelForm("tiny", other))
    assert differences(found) == ([0, 0], [0] * 4)
    assert found["b"]["checkpoint"] == other
    same = found["a"]["inspection"]["key"] == found["b"]["inspection"]["key"]
    assert same == (other is None)


def test_a_checkpoint_differs(compare):
    found = compare(ModelForm("tiny"), ModelForm("tiny", checkpoint=5))
    answers, heads = differences(found)
    assert answers == sorted(answers, reverse=True)
    assert 0 < answers[-1] <= 1
    assert all(0 < head <= 1 for head in heads)
    one, other = (found[side]["inspection"]["groups"][0] for side in "ab")
    assert one["layers"][0]["summaries"] != other["layers"][0]["summaries"]


@pytest.mark.parametrize("variant", ["float32", "dynamic_int8"])
def test_an_exported_file(variant, compare):
    found = compare(ModelForm("tiny"), ModelForm("tiny", tflite=variant))
    answers, heads = differences(found)
    assert max(answers) < (1e-4 if variant == "float32" else 0.2)
    assert heads == []
    assert "TFLite" in found["maps"]["why_not"]
    assert found["a"]["inspection"]
    assert found["b"]["inspection"] is None


def test_other_sizes_and_kinds(compare):
    found = compare(ModelForm("tiny"), ModelForm("deep"))
    assert "2 layers of 2 heads, and 3 layers of 2 heads" in found["maps"]["why_not"]
    assert len(found["answers"]["predictions"]) == 2
    found = compare(ModelForm("tiny"), ModelForm("low_rank"))
    assert "low_rank" in found["maps"]["why_not"]
    assert found["answers"]["why_not"] is None
    found = compare(ModelForm("tiny"), ModelForm("classes"))
    assert found["answers"] == {"why_not": "tiny predicts fills, and classes classes"}
    found = compare(ModelForm("tiny"), ModelForm("tiny", 5), {"text": "no mask"})
    assert "no [MASK]" in found["answers"]["why_not"]
    assert found["maps"]["groups"]


@pytest.mark.parametrize(
    ("a", "b", "words", "is_missing"),
    [
        (ModelForm("tiny"), ModelForm("pairs"), "text and second_text", False),
        (ModelForm("tiny"), ModelForm("none"), "no run 'none'", True),
        (ModelForm("tiny"), ModelForm("tiny", 7), "step 7; it has 5, 10", True),
        (ModelForm("tiny", tflite="int4"), ModelForm("tiny"), "it has float32", True),
        (ModelForm("deep", tflite="int8"), ModelForm("tiny"), "it has none", True),
    ],
)
def test_models_that_cannot_be_compared(a, b, words, is_missing, comparisons):
    with pytest.raises(StudioError, match=words) as raised:
        comparisons.compare(a, b, TEXT)
    assert raised.value.is_missing == is_missing


def test_a_file_of_other_weights_is_refused(folders, tmp_path):
    run = shutil.copytree(folders / "tiny", tmp_path / "again")
    weights = run / "training/model.weights.h5"
    with weights.open("ab") as file:
        file.write(b" ")
    comparisons = Comparisons(Inspections(find_runs([run])))
    with pytest.raises(StudioError, match="from other weights"):
        comparisons.compare(
            ModelForm("again"), ModelForm("again", tflite="float32"), TEXT
        )


@pytest.mark.parametrize("damage", ["cut off", "missing"])
def test_a_damaged_checkpoint_is_named(damage, folders, tmp_path):
    run = shutil.copytree(folders / "tiny", tmp_path / "run")
    file = run / "training/checkpoints/step-00000005/state.safetensors"
    file.unlink() if damage == "missing" else file.write_bytes(b"{")
    comparisons = Comparisons(Inspections(find_runs([run])))
    with pytest.raises(StudioError, match="not a checkpoint of this run"):
        comparisons.compare(ModelForm("run"), ModelForm("run", 5), TEXT)
