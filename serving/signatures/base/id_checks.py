"""Checks of client-provided token ids and positions, in the exported graph.

On some devices an id outside an embedding table, or a position beyond the end of a row,
raises an error that lists graph nodes; on other devices zeros are read. The checks run
on all devices, and their error messages contain the invalid number and the allowed
range.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.serving.signatures.base.interface import Endpoint

_TOKENS = ("token_ids", "encoder_token_ids", "decoder_token_ids")
_POSITIONS = "masked_positions"
_LENGTHS = ("length", "prefix_length")


def check_ids(
    endpoints: Mapping[str, Endpoint], model: Model, vocabulary_size: int
) -> dict[str, Endpoint]:
    """Adds checks to signatures that take ids; invalid ids are rejected.

    Args:
        endpoints: Signatures by name.
        model: Model configuration, with the number of segments and the maximum sequence
            length.
        vocabulary_size: The tokenizer's vocabulary size.

    Returns:
        All signatures by name; signatures that take ids fail with `InvalidArgument` on
        token ids outside the vocabulary, rows longer than the model's maximum, unknown
        segments, and lengths and positions beyond the end of a row.
    """
    return {
        name: _checked(endpoint, model, vocabulary_size)
        for name, endpoint in endpoints.items()
    }


def _checked(endpoint: Endpoint, model: Model, vocabulary_size: int) -> Endpoint:
    names = [str(spec.name) for spec in endpoint.inputs]
    if not any(name in names for name in _TOKENS):
        return endpoint

    def function(*inputs: tf.Tensor) -> Mapping[str, Any]:
        named = dict(zip(names, inputs, strict=True))
        with tf.control_dependencies([*_checks(named, model, vocabulary_size)]):
            return endpoint.function(*map(tf.identity, inputs))

    return Endpoint(function, endpoint.inputs)


def _checks(
    inputs: Mapping[str, tf.Tensor], model: Model, vocabulary_size: int
) -> Iterator[Any]:
    width = tf.constant(0)
    for name in _TOKENS:
        if name in inputs:
            width = tf.shape(inputs[name])[1]
            yield _within(
                f"{name}: tokens in a row", width, 0, model.max_sequence_length
            )
            yield _within(name, inputs[name], 0, vocabulary_size - 1)
    if "segment_ids" in inputs:
        segments = model.num_segments if isinstance(model, EncoderConfig) else 0
        # Without a vector for each, there are two: global attention tells them apart.
        highest = max(segments, 2) - 1
        yield _within("segment_ids", inputs["segment_ids"], 0, highest)
    if _POSITIONS in inputs:
        yield _within(_POSITIONS, inputs[_POSITIONS], 0, width - 1)
    for name in _LENGTHS:
        if name in inputs:
            yield _within(name, inputs[name], 0, width)


def _within(name: str, numbers: tf.Tensor, lowest: int, highest: Any) -> Any:
    """Returns an op that fails with `InvalidArgument` if a number is out of range."""
    # Of an empty tensor, the minimum is the dtype's largest number and vice versa.
    least, most = tf.reduce_min(numbers), tf.reduce_max(numbers)
    found = tf.where(least < lowest, least, most)
    fine = (least >= lowest) & (most <= highest)
    template = f"{name}: found {{}}; expected {lowest} to {{}}"
    message = tf.strings.format(template, [found, tf.constant(0) + highest])
    return tf.debugging.Assert(fine, [message])
