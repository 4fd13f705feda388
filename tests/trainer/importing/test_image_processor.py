"""Differences in how images are prepared are named."""

import json

import pytest

import transbeam
from tests.model.weights.hugging_face_checkpoints import CASES
from transbeam.trainer.importing.checkpoint_files import image_differences

USUAL = {
    "do_resize": True,
    "size": {"height": 8, "width": 8},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 0.00392156862745098,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "image_processor_type": "ViTImageProcessor",
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"size": 8}, []),
        (
            {"image_mean": [0.485, 0.456, 0.406]},
            ["image_mean=[0.485, 0.456, 0.406]"],
        ),
        ({"do_normalize": False}, ["do_normalize=False"]),
        ({"do_rescale": False}, ["do_rescale=False"]),
        ({"rescale_factor": 1.0}, ["rescale_factor=1.0"]),
        ({"resample": 3}, ["resample=3"]),
        ({"do_center_crop": True}, ["do_center_crop=True"]),
        ({"size": {"height": 8, "width": 9}}, ['size={"height": 8, "width": 9}']),
        ({"size": {"shortest_edge": 8}}, ['size={"shortest_edge": 8}']),
    ],
)
def test_what_differs_is_named(tmp_path, changed, said):
    told = json.dumps({**USUAL, **changed})
    (tmp_path / "preprocessor_config.json").write_text(told)
    assert image_differences(tmp_path, 8) == said


def test_without_a_file_there_is_nothing_to_say(tmp_path):
    assert image_differences(tmp_path, 8) == []


def test_the_import_says_it(tmp_path, capsys):
    folder = CASES["vit_classifier"].write(tmp_path / "vit")
    size = CASES["vit_classifier"].config["image_size"]
    told = json.dumps({**USUAL, "size": size, "image_std": [0.229, 0.224, 0.225]})
    (folder / "preprocessor_config.json").write_text(told)
    assert transbeam.main(["import", str(folder), "--run", str(tmp_path / "r")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "preprocessor_config.json: not imported: image_std=[0.229, 0.224," in said
