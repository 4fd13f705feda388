"""The analyzed model is the one that was trained, imported, or saved on the way."""

import shutil

import numpy as np
import pytest

from tests.trainer.analysis.models import imported_run
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.assign import variables_by_path
from transbeam.trainer.analysis.base.analyzed_model import load_analyzed_model
from transbeam.trainer.base.warm_start import find_origin
from transbeam.trainer.base.weight_files import copy_to_host


def values(model):
    return {path: copy_to_host(w) for path, w in variables_by_path(model).items()}


def test_trained_weights(small_trained):
    found = load_analyzed_model(small_trained, None)
    expected = find_origin(small_trained).values()
    assert found.has_head
    assert values(found.model).keys() == expected.keys()
    for path, value in values(found.model).items():
        np.testing.assert_array_equal(value, expected[path])
    size = len(expected["token_embedding/embeddings"])
    assert found.tokenizer.vocabulary_size == size


def test_weights_of_a_checkpoint(small_trained):
    """The last checkpoint has the finished weights, an earlier one has others."""
    last = load_analyzed_model(small_trained, None)
    same, earlier = (load_analyzed_model(small_trained, step) for step in (4, 2))
    for path, value in values(last.model).items():
        np.testing.assert_array_equal(values(same.model)[path], value)
    path = "token_embedding/embeddings"
    assert np.abs(values(earlier.model)[path] - values(last.model)[path]).max() > 0
    assert earlier.fingerprint != same.fingerprint


def test_unknown_checkpoint(small_trained):
    with pytest.raises(ArtifactError, match=r"no checkpoint of step 3; there are: .*4"):
        load_analyzed_model(small_trained, 3)


def test_damaged_checkpoint(small_trained, tmp_path):
    folder = shutil.copytree(small_trained, tmp_path / "run")
    file = folder / "training/checkpoints/step-00000004/state.safetensors"
    file.write_bytes(b"x" * 100)
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        load_analyzed_model(folder, 4)


def test_a_body_without_its_head(small_trained, tmp_path):
    folder = imported_run(small_trained, tmp_path / "run")
    found = load_analyzed_model(folder, None)
    assert not found.has_head
    assert set(found.model.output) >= {"sequence_output"}
    expected = find_origin(small_trained).values()
    for path, value in values(found.model).items():
        np.testing.assert_array_equal(value, expected[path])


def test_no_model(tmp_path):
    with pytest.raises(ArtifactError, match="has no trained model"):
        load_analyzed_model(tmp_path, None)
