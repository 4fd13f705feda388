"""Checks of the ids that clients send themselves, in the exported graph.

A table is read at whatever place an id names, and a position may lie behind the end of
its row: on one device that is an error with the names of nodes, on another zeros. The
checks run wherever the graph does, and say what is wrong.
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
    """Makes the signatures that take ids refuse those that the model has not.

    Args:
        endpoints: Signatures, by their names.
        model: Has so many segments, and reads rows of so many tokens.
        vocabulary_size: Of the tokenizer.

    Returns:
        All of them, those that take ids with `InvalidArgument` for token ids beyond the
        vocabulary, rows wider than the model reads, segments that there are not, and
        lengths and positions beyond the row.
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
        yield _within("segment_ids", inputs["segment_ids"], 0, segments - 1)
    if _POSITIONS in inputs:
        yield _within(_POSITIONS, inputs[_POSITIONS], 0, width - 1)
    for name in _LENGTHS:
        if name in inputs:
            yield _within(name, inputs[name], 0, width)


def _within(name: str, numbers: tf.Tensor, lowest: int, highest: Any) -> Any:
    """Fails with `InvalidArgument` if a number is not in a range."""
    # Of no numbers at all the least is the largest there is, and the other way round.
    least, most = tf.reduce_min(numbers), tf.reduce_max(numbers)
    found = tf.where(least < lowest, least, most)
    fine = (least >= lowest) & (most <= highest)
    template = f"{name}: found {{}}; expected {lowest} to {{}}"
    said = tf.strings.format(template, [found, tf.constant(0) + highest])
    return tf.debugging.Assert(fine, [said])
