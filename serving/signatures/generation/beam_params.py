"""What a client may ask of a search for the likeliest text: the inputs of `search`.

As in `wishes`, there is one number for each text.
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

# Each beam has a cache of its own: a client must not be able to ask for any number.
MOST_BEAMS = 16

SEARCH_SPECS = [
    MAX_NEW_TOKENS,
    tf.TensorSpec([None], tf.int32, name="num_beams"),
    tf.TensorSpec([None], tf.float32, name="length_penalty"),
]


class BeamParams(NamedTuple):
    """Of each of `B` texts; see `SEARCH_SPECS`.

    Attributes:
        searches: Checked.
    """

    searches: Searches

    @classmethod
    def from_inputs(cls, wishes: tuple[Any, ...], rows: tf.Tensor) -> "BeamParams":
        """From the inputs of a signature, in the order of `SEARCH_SPECS`.

        Fails in the graph with `InvalidArgument` where a number cannot be meant.

        Args:
            wishes: The inputs.
            rows: int32 scalar, `B`; one number may be for all texts.
        """
        wishes = of_rows(wishes, rows)
        number, num_beams, length_penalty = wishes
        checks = [
            check("max_new_tokens", number, LEFT_OUT, tf.int32.max),
            check("num_beams", num_beams, 1, MOST_BEAMS),
            check("length_penalty", length_penalty, -10, 10),
        ]
        with tf.control_dependencies(checks):
            return cls(Searches(*map(tf.identity, wishes)))

    @property
    def room(self) -> tf.Tensor:
        """Tokens of the longest text there may be: int32 scalar, at least 1."""
        return largest(self.searches.max_new_tokens)

    @property
    def width(self) -> tf.Tensor:
        """Beams of the text that has most: int32 scalar, at least 1."""
        return largest(self.searches.num_beams)

    def at_most(self, number: tf.Tensor) -> "BeamParams":
        """With so many new tokens, int32 (B,)."""
        return BeamParams(self.searches._replace(max_new_tokens=number))
