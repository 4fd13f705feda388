"""What every task gives the exporters."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, name="text")
TARGET = tf.TensorSpec([None], tf.string, name="target_text")
SECOND_TEXT = tf.TensorSpec([None], tf.string, name="second_text")
# Serialized `tf.train.Example`s, under the name that TF Serving wants.
EXAMPLES = tf.TensorSpec([None], tf.string, name="inputs")


class Endpoint(NamedTuple):
    """A signature: a function, and what it takes.

    Attributes:
        function: From tensors, by the names of `inputs`, to tensors by name.
        inputs: In the order of the function's arguments.
    """

    function: Callable[..., Mapping[str, Any]]
    inputs: list[tf.TensorSpec]


class SignatureTask(Protocol):
    """What a kind of model can be asked, as signatures.

    A text longer than the model can read loses its end, and says so in `truncated`.
    Special pieces written in a text are ordinary text, as they were for the training
    data.
    """

    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of a SavedModel, from texts and from ids."""
        ...

    def phone_endpoints(self) -> dict[str, Endpoint]:
        """Those of a TFLite file: from ids alone, of one text, in fixed shapes."""
        ...

    @property
    def max_length(self) -> int:
        """Tokens of the longest row that texts are made into."""
        ...

    @property
    def methods(self) -> Mapping[str, str]:
        """TF Serving's method (`classify`, `regress`) of signatures that have one."""
        ...


def ids_spec(name: str, *shape: int | None) -> tf.TensorSpec:
    """Of an input with ids; of any batch and length where no shape is given."""
    return tf.TensorSpec(shape or [None, None], tf.int32, name=name)
