"""Sampling parameters of a request: the inputs of the signature `generate`.

Each text has its own values, because a server that batches requests concatenates the
inputs of different clients along rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from transbeam.configs.schema.generation import BeamConfig
from transbeam.model.generation.logits_processors import RowLogitsProcessor
from transbeam.model.generation.request_batch import RequestBatch
from transbeam.serving.signatures.generation.logit_bias import MOST as MOST_BIASES
from transbeam.serving.signatures.generation.logit_bias import parse_biases
from transbeam.serving.text_ops.stop_strings import StopStrings

# The `max_new_tokens` that selects the default.
LEFT_OUT = -1
MAX_NEW_TOKENS = tf.TensorSpec([None], tf.int32, name="max_new_tokens")
SPECS = [
    MAX_NEW_TOKENS,
    tf.TensorSpec([None], tf.float32, name="temperature"),
    tf.TensorSpec([None], tf.int32, name="top_k"),
    tf.TensorSpec([None], tf.float32, name="top_p"),
    tf.TensorSpec([None], tf.int32, name="seed"),
    tf.TensorSpec([None], tf.float32, name="min_p"),
    tf.TensorSpec([None], tf.float32, name="repetition_penalty"),
    tf.TensorSpec([None], tf.int32, name="no_repeat_ngram_size"),
    tf.TensorSpec([None], tf.string, name="logit_bias"),
]
STOP = tf.TensorSpec([None], tf.string, name="stop")
# Defaults of inputs that a client may leave out, if the server reads defaults.
DEFAULTS = {
    "max_new_tokens": LEFT_OUT,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "logit_bias": "",
    "stop": "",
    "num_beams": BeamConfig().num_beams,
    "length_penalty": BeamConfig().length_penalty,
}


_RANGES = {
    "max_new_tokens": (LEFT_OUT, tf.int32.max),
    "temperature": (0, 1e4),
    "top_k": (0, tf.int32.max),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 100),
    "no_repeat_ngram_size": (0, tf.int32.max),
}


class SamplingParams(NamedTuple):
    """Sampling parameters of each of `B` texts; see `SPECS` and `STOP`.

    Attributes:
        requests: The validated parameters.
        stops: The stop strings.
    """

    requests: RequestBatch
    stops: StopStrings

    @classmethod
    def from_inputs(
        cls, params: tuple[Any, ...], rows: tf.Tensor, vocabulary_size: int
    ) -> "SamplingParams":
        """Reads the inputs of a signature, in the order of `SPECS`, with `STOP` last.

        Fails in the graph with `InvalidArgument` if a number is out of range.

        Args:
            params: The inputs.
            rows: int32 scalar, `B`; a single value is broadcast to all texts.
            vocabulary_size: The model's vocabulary size.
        """
        params = of_rows(params, rows)
        names = [str(spec.name) for spec in SPECS]
        named = dict(zip(names, params[: len(SPECS)], strict=True))
        checks = [check(name, named[name], *_RANGES[name]) for name in _RANGES]
        with tf.control_dependencies(checks):
            named = {name: tf.identity(value) for name, value in named.items()}
        adjustments = RowLogitsProcessor(
            named.pop("repetition_penalty"),
            named.pop("no_repeat_ngram_size"),
            *parse_biases(named.pop("logit_bias"), vocabulary_size),
        )
        requests = RequestBatch(
            seeds=named.pop("seed"), adjustments=adjustments, **named
        )
        return cls(requests, StopStrings.from_joined(params[-1]))

    @classmethod
    def none(cls, rows: Any) -> "SamplingParams":
        """Returns the defaults for clients that set no parameters: greedy decoding."""

        def column(name: str) -> tf.Tensor:
            return tf.fill([rows], tf.constant(DEFAULTS[name]))

        biases = tf.zeros([rows, MOST_BIASES])
        adjustments = RowLogitsProcessor(
            column("repetition_penalty"),
            column("no_repeat_ngram_size"),
            tf.cast(biases, tf.int32),
            biases,
        )
        names = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p")
        numbers = {name: column(name) for name in names}
        requests = RequestBatch(
            seeds=column("seed"), adjustments=adjustments, **numbers
        )
        return cls(requests, StopStrings.from_joined(tf.fill([rows], "")))

    @property
    def room(self) -> tf.Tensor:
        """The largest `max_new_tokens`: int32 scalar, at least 1."""
        return largest(self.requests.max_new_tokens)

    def at_most(self, number: tf.Tensor) -> "SamplingParams":
        """Returns these parameters with `max_new_tokens` replaced, int32 (B,)."""
        return self._replace(requests=self.requests._replace(max_new_tokens=number))


def of_rows(params: Sequence[Any], rows: tf.Tensor) -> tuple[Any, ...]:
    """Broadcasts columns to (B,): a single value applies to all texts."""
    return tuple(tf.broadcast_to(column, [rows]) for column in params)


def limits(wanted: tf.Tensor, room: tf.Tensor, most: int, default: int) -> tf.Tensor:
    """Computes each text's number of new tokens: the requested number, if it fits.

    Fails in the graph with `InvalidArgument` if no new token fits after a prompt.

    Args:
        wanted: int32 (B,), the requested numbers, `LEFT_OUT` for the default.
        room: int32 (B,), the number of tokens that fit after each prompt.
        most: The number of new tokens that fit after the shortest prompt, which has one
            token.
        default: The default number.

    Example:
    >>> limits(tf.constant([LEFT_OUT, 9, 0]), tf.constant([5, 5, 0]), 7, 64).numpy()
    array([5, 5, 0], dtype=int32)
    """
    fits: Any = (room > 0) | (wanted == 0)
    longest = most + 1 - tf.reduce_min(tf.pad(room, [[0, 1]], constant_values=most))
    message = tf.strings.format(
        f"the prompt has {{}} tokens and leaves no room for new ones: the model reads "
        f"{most + 1}. Shorten it to {most} tokens or fewer",
        longest,
    )
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), [message])]):
        number = tf.where(wanted == LEFT_OUT, default, wanted)
        return tf.minimum(number, tf.maximum(room, 0))


def after(checked: Any, *tensors: Any) -> Any:
    """Returns copies of tensors that are computed only after all checks passed.

    When a check fails, ops that are already running are canceled, and TensorFlow would
    report either the failed check or the cancellation.
    """
    with tf.control_dependencies(keras.tree.flatten(checked)):
        return tuple(tf.identity(tensor) for tensor in tensors)


def check(name: str, numbers: Any, lowest: Any, highest: Any) -> Any:
    """Returns an op that fails with `InvalidArgument` if numbers are out of range."""
    # Comparisons with NaN are false.
    fine = (numbers >= lowest) & (numbers <= highest)
    message = tf.strings.format(
        f"{name}: found {{}}; expected numbers from {lowest} to {highest}",
        first_true(numbers, ~fine, tf.constant([lowest], numbers.dtype)),
    )
    return tf.debugging.Assert(tf.reduce_all(fine), [message])


def first_true(values: Any, where: Any, otherwise: Any) -> Any:
    """Returns the first value whose condition is true, or a default; shape (1,)."""
    places = tf.cast(tf.concat([where, [True]], axis=0), tf.int32)
    return tf.gather(tf.concat([values, otherwise], axis=0), tf.argmax(places))


def largest(numbers: Any) -> tf.Tensor:
    """Returns the maximum of 1 and all numbers of a tensor, which may be empty."""
    return tf.reduce_max(tf.pad(numbers, [[0, 1]], constant_values=1))
