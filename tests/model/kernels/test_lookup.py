"""Rows of a table, by TFLite's own op where there is one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels.dispatch import for_phones, is_for_phones, is_plain, plain
from transbeam.model.kernels.lookup import look_up

TABLE = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.mark.quick_on_jax
@pytest.mark.parametrize("ids", [[[2, 0], [3, 3]], [1], 3])
def test_rows(ids):
    ids = ops.convert_to_tensor(ids, "int32")
    found = look_up(ops.convert_to_tensor(TABLE), ids)
    np.testing.assert_array_equal(found, TABLE[ops.convert_to_numpy(ids)])


def test_what_is_for_phones_is_plain():
    with for_phones():
        assert is_for_phones()
        assert is_plain()
    assert not is_for_phones()
    assert not is_plain()
    with plain():
        assert not is_for_phones()


@tensorflow_only
def test_the_same_rows_for_phones():
    ids = tf.constant([[2, 0], [3, 3]])
    with for_phones():
        np.testing.assert_array_equal(look_up(tf.constant(TABLE), ids), TABLE[ids])


@tensorflow_only
def test_tflite_looks_up(tmp_path):
    """A gather would have a table that cannot be in 4 bits."""
    table = keras.Variable(TABLE)
    archive = keras.export.ExportArchive()
    spec = tf.TensorSpec((1, None), tf.int32, name="ids")
    with for_phones():
        archive.add_endpoint("rows", lambda ids: {"rows": look_up(table, ids)}, [spec])
        archive.write_out(str(tmp_path / "saved"), verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(tmp_path / "saved"), signature_keys=["rows"]
    )
    interpreter = Interpreter(model_content=converter.convert())
    names = {detail["op_name"] for detail in interpreter._get_ops_details()}
    assert "EMBEDDING_LOOKUP" in names
    assert "GATHER" not in names
    rows = interpreter.get_signature_runner("rows")
    ids = np.array([[3, 0, 2]], np.int32)
    np.testing.assert_array_equal(rows(ids=ids)["rows"], TABLE[ids])
