"""The cache written in place equals the one copied at every step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels import cache_update
from transbeam.model.kernels.cache_update import loop_with_cache, update_cache
from transbeam.model.kernels.dispatch import for_phones


def fill(cache, rows, loop=loop_with_cache):
    """Writes rows `(N, B, G, Q, K)` one after the other, and reads as it goes."""
    length = rows.shape[3]

    def body(cache, number, sums):
        new = rows[number]
        cache = {"key": update_cache(cache["key"], new, number * length)}
        return cache, (number + 1, sums + ops.sum(cache["key"], axis=2))

    batch, heads, _, width = cache["key"].shape
    state = (ops.array(0, dtype="int32"), ops.zeros((batch, heads, width)))
    return loop(lambda number, _: number < len(rows), body, state, cache)[1]


def expected(cache, rows):
    cache, total, length = cache.copy(), 0, rows.shape[3]
    for number, new in enumerate(rows):
        cache[:, :, number * length : (number + 1) * length] = new
        total = total + cache.sum(axis=2)
    return total


def example(batch=2, heads=3, slots=8, width=4, new=1, steps=3, seed=0):
    generator = np.random.default_rng(seed)
    cache = generator.normal(size=(batch, heads, slots, width)).astype("float32")
    rows = generator.normal(size=(steps, batch, heads, new, width)).astype("float32")
    return cache, rows


@pytest.mark.quick_on_jax
def test_one_update():
    cache, rows = example(new=2)
    updated = ops.convert_to_numpy(
        update_cache(ops.array(cache), ops.array(rows[0]), 5)
    )
    cache[:, :, 5:7] = rows[0]
    assert (updated == cache).all()


@pytest.mark.quick_on_jax
def test_an_eager_loop():
    cache, rows = example()
    sums = fill({"key": ops.array(cache)}, ops.array(rows))
    np.testing.assert_allclose(sums, expected(cache, rows), rtol=1e-5, atol=1e-5)


@tensorflow_only
@settings(max_examples=4)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    width=st.integers(1, 4),
    new=st.integers(1, 3),
    steps=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_a_graph_equals_the_reference(batch, heads, width, new, steps, seed):
    import tensorflow as tf

    cache, rows = example(batch, heads, new * steps + 2, width, new, steps, seed)
    function = tf.function(lambda c, r: fill({"key": c}, r))
    plain = tf.function(lambda c, r: fill({"key": c}, r, cache_update._plain_loop))
    found, reference = function(cache, rows).numpy(), plain(cache, rows).numpy()
    assert (found == reference).all()
    np.testing.assert_allclose(found, expected(cache, rows), rtol=1e-5, atol=1e-5)


@tensorflow_only
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_dtype_of_a_cache(dtype):
    import tensorflow as tf

    cache, rows = example()

    @tf.function
    def function(cache, rows):
        def body(cache, number, kept):
            cache = update_cache(cache, rows[number], number)
            return cache, (number + 1, cache)

        start = (tf.constant(0), cache)
        return loop_with_cache(lambda n, _: n < len(rows), body, start, cache)[1]

    found = function(tf.cast(cache, dtype), tf.cast(rows, dtype))
    for number, new in enumerate(rows):
        cache[:, :, number : number + 1] = new
    assert (found == tf.cast(cache, dtype)).numpy().all()


@tensorflow_only
def test_what_goes_into_a_loop_is_not_written_to():
    import tensorflow as tf

    cache, rows = example()
    given_cache = tf.constant(cache)

    @tf.function
    def function(given, rows):
        constant = tf.zeros((2, 3, 8, 4))
        first, second = fill({"key": constant}, rows), fill({"key": constant}, rows)
        return fill({"key": given}, rows), first, second, given, constant

    for _ in range(2):
        filled, first, second, kept, zeros = function(given_cache, tf.constant(rows))
        np.testing.assert_allclose(filled, expected(cache, rows), rtol=1e-5, atol=1e-5)
        fresh = expected(np.zeros_like(cache), rows)
        np.testing.assert_allclose(first, fresh, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(second, fresh, rtol=1e-5, atol=1e-5)
        assert (kept.numpy() == cache).all()
        assert not zeros.numpy().any()
        assert (given_cache.numpy() == cache).all()


def in_place_updates(function, *arguments):
    """Counts in-place writes in the graph of a function, loops included."""
    graph = function.get_concrete_function(*arguments).graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    return sum(node.op == "InplaceUpdate" for node in nodes)


@tensorflow_only
def test_in_place_in_a_loop_and_nowhere_else():
    import tensorflow as tf

    cache, rows = map(tf.constant, example())

    def loop(cache, rows):
        return fill({"key": cache}, rows)

    def single(cache, rows):
        return update_cache(cache, rows[0], tf.constant(1))

    assert in_place_updates(tf.function(loop), cache, rows) == 1
    assert in_place_updates(tf.function(single), cache, rows) == 0
    # XLA has no such operation, and needs none.
    compiled = tf.function(loop, jit_compile=True)
    assert in_place_updates(compiled, cache, rows) == 0
    found = compiled(cache, rows).numpy()
    np.testing.assert_allclose(found, tf.function(loop)(cache, rows), rtol=1e-6)


@tensorflow_only
def test_shapes_known_only_at_run_time():
    import tensorflow as tf

    cache, rows = example()
    signature = [tf.TensorSpec([None, 3, None, 4]), tf.TensorSpec([3, None, 3, 1, 4])]

    @tf.function(input_signature=signature)
    def function(cache, rows):
        def body(cache, number, sums):
            cache = update_cache(cache, rows[number], number)
            cache = tf.reshape(cache, tf.shape(cache))  # the shape is lost
            return cache, (number + 1, sums + tf.reduce_sum(cache))

        start = (tf.constant(0), tf.constant(0.0))
        return loop_with_cache(lambda n, _: n < 3, body, start, cache)[1]

    total = expected(cache, rows).sum()
    np.testing.assert_allclose(function(cache, rows), total, rtol=1e-4)


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("new", [1, 3, 8])
def test_for_phones_nothing_is_moved_that_reaches_over_the_end(start, new):
    cache, rows = example(steps=1, new=new)
    if new == 1 and start == 8:
        return  # a single token is only read where there is room
    expected = cache.copy()
    room = min(new, 8 - start)
    expected[:, :, start : start + room] = rows[0][:, :, :room]
    with for_phones():
        index = ops.array(start, dtype="int32")
        found = update_cache(ops.array(cache), ops.array(rows[0]), index)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)
