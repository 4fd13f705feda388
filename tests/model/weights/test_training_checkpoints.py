"""Weights of checkpoints, by their paths."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.training_checkpoints import (
    find_checkpoint,
    list_checkpoints,
    read_checkpoint_weights,
)

PATHS = {
    "model/00000": "head/kernel",
    "model/00001": "head/bias",
    "optimizer/00000": "adam/iteration",
}


def write(folder, paths, step=40):
    path = folder / f"step-{step:08d}"
    path.mkdir()
    arrays = {name: np.float32([n]) for n, name in enumerate(paths)}
    save_file(arrays, path / "state.safetensors")
    described = {name: {"path": of} for name, of in paths.items()}
    (path / "state.json").write_text(json.dumps({"tensors": described}))
    return path


def test_weights_of_the_model(tmp_path):
    path = write(tmp_path, PATHS)
    found = read_checkpoint_weights(path)
    assert {name: array.tolist() for name, array in found.items()} == {
        "head/kernel": [0],
        "head/bias": [1],
    }


def test_averages_replace_the_weights_that_have_one(tmp_path):
    average = {"average/00000": "the average of head/kernel"}
    found = read_checkpoint_weights(write(tmp_path, PATHS | average))
    assert {name: array.tolist() for name, array in found.items()} == {
        "head/kernel": [3],
        "head/bias": [1],
    }


def test_adapters_are_refused(tmp_path):
    path = write(tmp_path, PATHS | {"model/00002": "head/lora_kernel_a"})
    with pytest.raises(ArtifactError, match="LoRA"):
        read_checkpoint_weights(path)


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}"])
def test_a_damaged_checkpoint(name, content, tmp_path):
    path = write(tmp_path, PATHS)
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        read_checkpoint_weights(path)


def test_checkpoints_are_found_by_their_steps(tmp_path):
    with pytest.raises(ArtifactError, match="there are: none"):
        find_checkpoint(tmp_path, 3)
    paths = [write(tmp_path, PATHS, step) for step in (40, 5)]
    assert list_checkpoints(tmp_path) == paths[::-1]
    assert find_checkpoint(tmp_path, 40) == paths[0]
    with pytest.raises(
        ArtifactError, match="no checkpoint of step 3; there are: 5, 40"
    ):
        find_checkpoint(tmp_path, 3)
