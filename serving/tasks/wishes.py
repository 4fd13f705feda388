"""What a client may ask of a text that is to be written: the inputs of `generate`.

There is one number for each text and not one for all, because a server that batches
requests puts inputs together row by row, and the requests are of different clients.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from model.generation.requests import Requests
from serving.stops import Stops

SPECS = [
    tf.TensorSpec([None], tf.int32, name="max_new_tokens"),
    tf.TensorSpec([None], tf.float32, name="temperature"),
    tf.TensorSpec([None], tf.int32, name="top_k"),
    tf.TensorSpec([None], tf.float32, name="top_p"),
    tf.TensorSpec([None], tf.int32, name="seed"),
]
STOP = tf.TensorSpec([None], tf.string, name="stop")


class Wishes(NamedTuple):
    """Of each of `B` texts; see `SPECS` and `STOP`.

    Attributes:
        requests: Checked.
        stops: The strings that end it; None where the client gives ids.
    """

    requests: Requests
    stops: Stops | None

    @classmethod
    def of(cls, wishes: tuple[Any, ...], most: int) -> "Wishes":
        """From the inputs of a signature, in the order of `SPECS`, `STOP` the last.

        Fails in the graph with `InvalidArgument` where a number cannot be meant.

        Args:
            wishes: The inputs, with or without `STOP`.
            most: The largest `max_new_tokens` there may be.
        """
        number, temperature, top_k, top_p, _ = wishes[: len(SPECS)]
        checks = [
            _check("max_new_tokens", number, (number >= 1) & (number <= most), 1, most),
            # Not a number is not in order with anything.
            _check("temperature", temperature, _between(temperature, 0, 1e4), 0, 1e4),
            _check("top_k", top_k, top_k >= 0, 0, "the vocabulary's size"),
            _check("top_p", top_p, _between(top_p, 0, 1), 0, 1),
        ]
        with tf.control_dependencies(checks):
            requests = Requests(*map(tf.identity, wishes[: len(SPECS)]))
        given = wishes[len(SPECS) :]
        return cls(requests, Stops.of(given[0]) if given else None)

    @property
    def room(self) -> tf.Tensor:
        """Tokens of the longest text there may be: int32 scalar, at least 1."""
        wanted = self.requests.max_new_tokens
        return tf.reduce_max(tf.pad(wanted, [[0, 1]], constant_values=1))


def _between(values: Any, lowest: float, highest: float) -> tf.Tensor:
    return (values >= lowest) & (values <= highest)


def _check(name: str, values: Any, fine: Any, lowest: Any, highest: Any) -> Any:
    said = [f"{name}: found", values, f"expected numbers from {lowest} to {highest}"]
    return tf.debugging.Assert(tf.reduce_all(fine), said)
