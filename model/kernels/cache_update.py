"""In-place updates of a KV cache, and the decoding loop around them.

TensorFlow's tensors are immutable: `slice_update` in a `tf.while_loop` copies the whole
cache for each token, and so does `tensor_scatter_nd_update`, so the cost of a token
grows with the slots of the cache. XLA, and therefore JAX, updates in place
automatically. So on TensorFlow without XLA, and only inside `loop_with_cache`, the new
rows are written into the cache's own memory.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import (
    in_tensorflow_graph,
    is_for_phones,
    is_plain,
    on_tensorflow,
    setting,
)

_in_place: ContextVar[bool] = ContextVar("in_place", default=False)


def update_cache(cache: Any, new: Any, index: Any) -> Any:
    """Writes the keys or values of new tokens to their slots.

    Shapes: `B` batch, `G` heads, `S` slots, `Q` new tokens, `K` head width.

    Args:
        cache: `(B, G, S, K)`.
        new: `(B, G, Q, K)`, of the dtype of `cache`.
        index: int or int32 scalar tensor, the first slot. `index + Q` is at most `S`.

    Returns:
        `(B, G, S, K)`. The old cache must not be used again.

    Example:
    >>> cache = update_cache(ops.zeros((1, 1, 3, 1)), ops.ones((1, 1, 1, 1)), 1)
    >>> ops.convert_to_numpy(cache).ravel()
    array([0., 1., 0.], dtype=float32)
    """
    if _in_place.get():
        return _write_rows(cache, new, index)
    return update_slice(cache, index, new, axis=2)


def update_slice(x: Any, start: Any, new: Any, axis: int) -> Any:
    """Replaces a slice along one axis.

    Args:
        x: Any tensor.
        start: int or int32 scalar tensor, the start of the slice.
        new: The new values, of the shape of `x` except for the slice's length.
        axis: The axis.

    Example:
    >>> x = update_slice(ops.zeros((1, 4)), 1, ops.ones((1, 2)), axis=1)
    >>> ops.convert_to_numpy(x)
    array([[0., 1., 1., 0.]], dtype=float32)
    """
    if is_for_phones():
        return _update_window(x, start, new, axis)
    if on_tensorflow() and is_plain():
        # Keras's op is an XLA op, which not every model server has.
        import tensorflow as tf

        whole = (slice(None),) * axis
        end = start + tf.shape(new)[axis]
        before, after = x[(*whole, slice(None, start))], x[(*whole, slice(end, None))]
        return tf.concat([before, new, after], axis=axis)
    starts = [0] * len(x.shape)
    starts[axis] = start
    return ops.slice_update(x, starts, new)


def _update_window(x, start, new, axis):
    """Like `update_slice`, with static shapes; new values beyond the end are dropped.

    On a phone a prompt is processed in chunks of a few sizes, and the padding of the
    last chunk may extend beyond the end of the cache. TFLite's op would shift the whole
    slice to the left, and overwrite earlier tokens.
    """
    size, slots = new.shape[axis], x.shape[axis]
    starts = [0] * len(x.shape)
    if size > 1:
        fits = ops.minimum(start, slots - size)
        starts[axis] = fits
        before = ops.slice(x, starts, new.shape)
        number = ops.arange(size, dtype="int32") - (start - fits)
        moved = ops.take(new, ops.maximum(number, 0), axis=axis)
        shape = [1] * len(x.shape)
        shape[axis] = size
        new = ops.where(ops.reshape(number, shape) >= 0, moved, before)
        start = fits
    starts[axis] = start
    return ops.slice_update(x, starts, new)


def loop_with_cache(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    state: tuple[Any, ...],
    cache: Any,
) -> tuple[Any, ...]:
    """Runs a `while` loop over a cache that `update_cache` writes to.

    Args:
        condition: `condition(*state)` returns a bool scalar: true to run the body
            again.
        body: `body(cache, *state)` returns the new cache and the new state, a tuple, in
            the same shapes and dtypes.
        state: Tensors, or nested structures of them.
        cache: A nested structure of tensors.

    Returns:
        The last state.

    Example:
    >>> cache = {"key": ops.zeros((1, 1, 4, 1))}
    >>> def body(cache, step, total):
    ...     rows = ops.ones((1, 1, 1, 1))
    ...     cache = {"key": update_cache(cache["key"], rows, step)}
    ...     return cache, (step + 1, total + ops.sum(cache["key"]))
    >>> start = ops.array(0, dtype="int32"), ops.array(0.0)
    >>> step, total = loop_with_cache(lambda step, _: step < 4, body, start, cache)
    >>> float(total)
    10.0
    """
    loop = _tensorflow_loop if in_tensorflow_graph() else _plain_loop
    return loop(condition, body, state, cache)


def _plain_loop(condition, body, state, cache):
    def step(cache, state):
        return body(cache, *state)

    _, state = ops.while_loop(lambda _, state: condition(*state), step, (cache, state))
    return state


def _tensorflow_loop(condition, body, state, cache):
    """Like `loop_with_cache`, with a copy of the cache and fixed shapes."""
    import tensorflow as tf

    compiled = _compiled_by_xla()
    if not compiled:
        # The input may be a constant, the caller's tensor, or shared with another loop
        # by common subexpression elimination, so only a copy may be written to.
        cache = tf.nest.map_structure(lambda x: tf.raw_ops.DeepCopy(x=x), cache)
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape(x.shape), (cache, state))

    def step(cache, state):
        with setting(_in_place, not compiled):
            new = body(cache, *state)
        # Partially known shapes are lost in the model, so they are set again.
        return tf.nest.map_structure(_with_shape, tuple(new), shapes)

    # Iterations must not overlap: the next might write before this one has read.
    _, state = tf.while_loop(
        lambda _, state: condition(*state),
        step,
        (cache, state),
        shapes,
        parallel_iterations=1,
    )
    return state


def _with_shape(tensor, shape):
    tensor.set_shape(shape)
    return tensor


def updating_in_place() -> AbstractContextManager[None]:
    """A context in which traced functions update their caches in place.

    An update consumes the cache passed to it: use only the returned cache afterwards.
    In eager execution nothing is updated in place.
    """
    return setting(_in_place, in_tensorflow_graph())


def _compiled_by_xla() -> bool:
    """Checks if the traced function, or a caller of it, is compiled by XLA."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def _write_rows(cache, new, index):
    """Writes to the memory of `cache`, even if it has other references.

    An update must depend on the results of all reads of the cache before it, as the
    computation of a token depends on the logits of the previous token.
    """
    import tensorflow as tf

    shape = tf.shape(cache)
    heads, slots, width = shape[0] * shape[1], shape[2], shape[3]
    columns = index + tf.range(tf.shape(new)[2])
    rows = tf.range(heads)[:, None] * slots + columns[None]  # (B G, Q)
    written = tf.raw_ops.InplaceUpdate(
        x=tf.reshape(cache, (heads * slots, width)),
        i=tf.reshape(rows, [-1]),
        v=tf.reshape(new, (-1, width)),
    )
    return tf.reshape(written, shape)
