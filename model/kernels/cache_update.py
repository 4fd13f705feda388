"""Writing new keys and values into a cache, and the loop that does so.

TensorFlow's tensors do not change: `slice_update` in a `tf.while_loop` copies the
whole cache for one token, and so does `tensor_scatter_nd_update`, for which the cost of
a token grows with the slots of the cache. XLA, and with it JAX, updates in place by
itself. So on TensorFlow without XLA, inside `loop_with_cache` and nowhere else, the new
rows are written into the cache's own memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import (
    in_tensorflow_graph,
    is_for_phones,
    is_plain,
    on_tensorflow,
)

_in_place: ContextVar[bool] = ContextVar("in_place", default=False)


def update_cache(cache: Any, new: Any, index: Any) -> Any:
    """Puts the rows of new tokens into their slots.

    Shapes: `B` batch, `G` heads, `S` slots, `Q` new tokens, `K` head width.

    Args:
        cache: `(B, G, S, K)`.
        new: `(B, G, Q, K)`, of the same dtype.
        index: int or int32 scalar tensor, the first slot. `index + Q` is at most `S`.

    Returns:
        `(B, G, S, K)`. The old cache is not to be used again.

    Example:
    >>> cache = update_cache(ops.zeros((1, 1, 3, 1)), ops.ones((1, 1, 1, 1)), 1)
    >>> ops.convert_to_numpy(cache).ravel()
    array([0., 1., 0.], dtype=float32)
    """
    if _in_place.get():
        return _write_rows(cache, new, index)
    return update_slice(cache, index, new, axis=2)


def update_slice(x: Any, start: Any, new: Any, axis: int) -> Any:
    """Other values for a stretch of one axis.

    Args:
        x: Any tensor.
        start: int or int32 scalar tensor, where the stretch begins.
        new: As `x`, but for the stretch's length.
        axis: Which one.

    Example:
    >>> x = update_slice(ops.zeros((1, 4)), 1, ops.ones((1, 2)), axis=1)
    >>> ops.convert_to_numpy(x)
    array([[0., 1., 1., 0.]], dtype=float32)
    """
    if is_for_phones():
        return _update_window(x, start, new, axis)
    if on_tensorflow() and is_plain():
        # Keras's op is one of XLA's, which not every model server has.
        import tensorflow as tf

        whole = (slice(None),) * axis
        end = start + tf.shape(new)[axis]
        before, after = x[(*whole, slice(None, start))], x[(*whole, slice(end, None))]
        return tf.concat([before, new, after], axis=axis)
    places = [0] * len(x.shape)
    places[axis] = start
    return ops.slice_update(x, places, new)


def _update_window(x, start, new, axis):
    """The same in static shapes; what reaches over the end is left out.

    A phone reads a prompt in pieces of a few sizes, and what fills up the last piece
    may reach over the end of the cache. TFLite's op would write all of it further to
    the left, where other tokens are.
    """
    size, slots = new.shape[axis], x.shape[axis]
    places = [0] * len(x.shape)
    if size > 1:
        fits = ops.minimum(start, slots - size)
        places[axis] = fits
        before = ops.slice(x, places, new.shape)
        number = ops.arange(size, dtype="int32") - (start - fits)
        moved = ops.take(new, ops.maximum(number, 0), axis=axis)
        shape = [1] * len(x.shape)
        shape[axis] = size
        new = ops.where(ops.reshape(number, shape) >= 0, moved, before)
        start = fits
    places[axis] = start
    return ops.slice_update(x, places, new)


def loop_with_cache(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    state: tuple[Any, ...],
    cache: Any,
) -> tuple[Any, ...]:
    """A `while` loop around a cache that `update_cache` writes into.

    Args:
        condition: `condition(*state)` gives a bool scalar.
        body: `body(cache, *state)` gives the new cache and the new state, a tuple, in
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
    """The same; the cache is the loop's own, and shapes stay what they were."""
    import tensorflow as tf

    compiled = _compiled_by_xla()
    if not compiled:
        # What comes in may be a constant, the caller's tensor, or shared with another
        # loop that was found to begin alike; only a copy of our own may be written to.
        cache = tf.nest.map_structure(lambda x: tf.raw_ops.DeepCopy(x=x), cache)
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape(x.shape), (cache, state))

    def step(cache, state):
        with _updates_in_place(not compiled):
            new = body(cache, *state)
        # Shapes known only in part are lost on the way through the model.
        return tf.nest.map_structure(_with_shape, tuple(new), shapes)

    # One iteration after another: the next may write before this one has read.
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


@contextmanager
def updating_in_place() -> Iterator[None]:
    """Lets functions that are traced inside write into the caches that they are given.

    A cache is used up by it: only the new one is to be looked at, and the same one must
    not be given again. Outside of TensorFlow's graphs nothing is written into.
    """
    with _updates_in_place(in_tensorflow_graph()):
        yield


@contextmanager
def _updates_in_place(allowed: bool):
    token = _in_place.set(allowed)
    try:
        yield
    finally:
        _in_place.reset(token)


def _compiled_by_xla() -> bool:
    """Checks that the function being traced is compiled by XLA.

    Itself, or as a part of a caller that is.
    """
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def _write_rows(cache, new, index):
    """Writes into the memory of `cache`, whoever else may hold it.

    What reads the cache in one iteration must be needed for the next update in the
    same iteration; as the scores of a token are for the token that follows it.
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
