"""A SavedModel is loaded and called in one way, from every room."""

import numpy as np
import pytest
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.runtimes.saved_model import SavedModelRunner, read_signatures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    module, path = tf.Module(), tmp_path_factory.mktemp("saved")
    module.scale = tf.Variable(2.0)
    specs = [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([1], tf.string, "s")]
    module.double = tf.function(
        lambda x, s: {"y": module.scale * x, "same": s}, input_signature=specs
    )
    tf.saved_model.save(module, str(path), {"double": module.double})
    return path


def test_inputs_take_the_dtype_of_the_signature(folder):
    found = SavedModelRunner(folder).run("double", {"x": [1, 2], "s": ["é"]})
    np.testing.assert_array_equal(found["y"], np.array([2, 4], np.float32))
    assert found["y"].dtype == np.float32
    assert found["same"].tolist() == ["é".encode()]


def test_an_unknown_input(folder):
    with pytest.raises(TypeError, match="z"):
        SavedModelRunner(folder).run("double", {"x": [1], "s": ["a"], "z": [3]})


def test_signatures_are_read_without_loading(folder):
    assert [*read_signatures(folder)] == ["double"]


def test_what_cannot_be_loaded(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"nothing")
    for read in (SavedModelRunner, read_signatures):
        with pytest.raises(
            ArtifactError, match=r"as a SavedModel.* Move .* away and export it again"
        ):
            read(tmp_path)
