"""Parses the input `logit_bias`: numbers that a client adds to token logits.

Each text has a string, `"50256:-100,11:2.5"`, because requests with different numbers
of biases could not be batched otherwise.
"""

import tensorflow as tf

# Maximum tokens of one text; the arrays pass through each step of a stream.
MOST = 300
# As in OpenAI's API: this bias excludes a token, or nearly all others.
LARGEST = 100.0


def parse_biases(joined: tf.Tensor, vocabulary_size: int) -> tuple[tf.Tensor, ...]:
    """Parses token ids and their logit biases.

    Fails in the graph with `InvalidArgument` if a string does not have this format.

    Args:
        joined: string (B,), empty for no bias.
        vocabulary_size: The vocabulary size; token ids beyond it are rejected.

    Returns:
        The token ids, int32 (B, `MOST`), and their biases, float32 of the same shape,
        padded with 0.

    Example:
    >>> ids, biases = parse_biases(tf.constant(["3:-100,1:2.5", ""]), 9)
    >>> ids[:, :2].numpy().tolist(), biases[:, :2].numpy().tolist()
    ([[3, 1], [0, 0]], [[-100.0, 2.5], [0.0, 0.0]])
    """
    rows = tf.cast(tf.shape(joined)[0], tf.int64)
    parts = tf.strings.split(joined, ",")
    is_entry = tf.not_equal(parts.values, "")
    row = tf.boolean_mask(parts.value_rowids(), is_entry)
    pairs = tf.boolean_mask(parts.values, is_entry)
    form = r"\s*\d{1,9}\s*:\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"
    readable = tf.strings.regex_full_match(pairs, form)
    checks = [
        _expect(readable, pairs, "expected TOKEN_ID:NUMBER, and commas between several")
    ]
    with tf.control_dependencies(checks):
        numbers = tf.reshape(tf.strings.split(pairs, ":").values, [-1, 2])
    ids = tf.strings.to_number(tf.strings.strip(numbers[:, 0]), tf.int32)
    biases = tf.strings.to_number(tf.strings.strip(numbers[:, 1]), tf.float32)
    places = tf.math.bincount(tf.cast(row, tf.int32), minlength=tf.cast(rows, tf.int32))
    checks = [
        _expect(ids < vocabulary_size, pairs, f"there are {vocabulary_size} tokens"),
        _expect(
            tf.abs(biases) <= LARGEST, pairs, f"expected numbers up to {LARGEST:g}"
        ),
        _expect(places <= MOST, tf.strings.as_string(places), f"{MOST} at most"),
    ]
    with tf.control_dependencies(checks):
        splits = tf.concat([[0], tf.cumsum(places)], 0)
        place = tf.range(tf.size(ids)) - tf.gather(splits, tf.cast(row, tf.int32))
    cells = tf.stack([row, tf.cast(place, tf.int64)], axis=1)
    shape = tf.stack([rows, MOST])
    columns = tf.scatter_nd(cells, ids, shape), tf.scatter_nd(cells, biases, shape)
    return tuple(tf.ensure_shape(column, [None, MOST]) for column in columns)


def _expect(fine: tf.Tensor, found: tf.Tensor, expected: str) -> tf.Operation:
    places = tf.cast(tf.concat([tf.logical_not(fine), [True]], axis=0), tf.int32)
    wrong = tf.gather(tf.concat([found, [""]], axis=0), tf.argmax(places))
    message = tf.strings.join(["logit_bias: found ", wrong, f"; {expected}"])
    return tf.debugging.Assert(tf.reduce_all(fine), [message])
