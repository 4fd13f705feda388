"""Embedding lookup."""

import functools
from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import is_for_phones, on_tensorflow
from transbeam.model.kernels.shapes import reshape


def look_up(table: Any, ids: Any) -> Any:
    """Gathers the rows of a table.

    TFLite has an embedding lookup op, whose table may be int8 or int4 and which
    dequantizes only the gathered rows; for a gather op TFLite dequantizes the whole
    table. The converter recognizes the lookup by the name of a function.

    Args:
        table: float `(V, D)`.
        ids: int of any shape, in `[0, V)`.

    Returns:
        `(*ids.shape, D)` in the dtype of `table`.

    Example:
    >>> table = ops.array([[1.0], [2.0], [3.0]])
    >>> ops.convert_to_numpy(look_up(table, ops.array([[2, 0]]))).ravel()
    array([3., 1.], dtype=float32)
    """
    if not (on_tensorflow() and is_for_phones()):
        return ops.take(table, ids, axis=0)
    rows = _named_lookup()(ops.convert_to_tensor(table), reshape(ids, (-1,)))
    return reshape(rows, (*ops.shape(ids), table.shape[1]))


@functools.cache
def _named_lookup() -> Any:
    import tensorflow as tf

    @tf.function(experimental_implements="embedding_matmul", autograph=False)
    def look_up(table, ids):
        return tf.gather(table, ids)

    return look_up
