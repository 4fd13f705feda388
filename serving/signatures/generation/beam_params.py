"""Beam search parameters of a request: the inputs of the signature `search`.

As in `sampling_params`, each text has its own values.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.model.generation.beam import Searches
from transbeam.serving.signatures.generation.sampling_params import (
    LEFT_OUT,
    MAX_NEW_TOKENS,
    check,
    largest,
    of_rows,
)

# Each beam has its own cache, so the number that a client can request is limited.
MOST_BEAMS = 16

SEARCH_SPECS = [
    MAX_NEW_TOKENS,
    tf.TensorSpec([None], tf.int32, name="num_beams"),
    tf.TensorSpec([None], tf.float32, name="length_penalty"),
]


class BeamParams(NamedTuple):
    """Beam search parameters of each of `B` texts; see `SEARCH_SPECS`.

    Attributes:
        searches: The validated parameters.
    """

    searches: Searches

    @classmethod
    def from_inputs(cls, params: tuple[Any, ...], rows: tf.Tensor) -> "BeamParams":
        """Reads the inputs of a signature, in the order of `SEARCH_SPECS`.

        Fails in the graph with `InvalidArgument` if a number is out of range.

        Args:
            params: The inputs.
            rows: int32 scalar, `B`; a single value is broadcast to all texts.
        """
        params = of_rows(params, rows)
        number, num_beams, length_penalty = params
        checks = [
            check("max_new_tokens", number, LEFT_OUT, tf.int32.max),
            check("num_beams", num_beams, 1, MOST_BEAMS),
            check("length_penalty", length_penalty, -10, 10),
        ]
        with tf.control_dependencies(checks):
            return cls(Searches(*map(tf.identity, params)))

    @property
    def room(self) -> tf.Tensor:
        """The largest `max_new_tokens`: int32 scalar, at least 1."""
        return largest(self.searches.max_new_tokens)

    @property
    def width(self) -> tf.Tensor:
        """The largest number of beams: int32 scalar, at least 1."""
        return largest(self.searches.num_beams)

    def at_most(self, number: tf.Tensor) -> "BeamParams":
        """Returns these parameters with `max_new_tokens` replaced, int32 (B,)."""
        return BeamParams(self.searches._replace(max_new_tokens=number))
