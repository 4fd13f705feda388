"""The interface between the signatures of a kind of model and the exporters."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, name="text")
TARGET = tf.TensorSpec([None], tf.string, name="target_text")
SECOND_TEXT = tf.TensorSpec([None], tf.string, name="second_text")
# Serialized `tf.train.Example`s, under the name that TF Serving requires.
EXAMPLES = tf.TensorSpec([None], tf.string, name="inputs")


class Endpoint(NamedTuple):
    """A signature: a function and its input specs.

    Attributes:
        function: Takes tensors in the order of `inputs` and returns tensors by name.
        inputs: Specs in the order of the function's arguments.
    """

    function: Callable[..., Mapping[str, Any]]
    inputs: list[tf.TensorSpec]


class SignatureTask(Protocol):
    """The signatures of a kind of model.

    A text longer than the model's maximum length is truncated at its end; the output
    `truncated` is then True. The strings of special tokens in a text are encoded as
    ordinary text, as in the training data.
    """

    def endpoints(self) -> dict[str, Endpoint]:
        """Returns the signatures of a SavedModel, on texts and on ids."""
        ...

    def phone_endpoints(self) -> dict[str, Endpoint]:
        """Returns the signatures of a TFLite file: ids of one text, in fixed shapes."""
        ...

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of a row."""
        ...

    @property
    def methods(self) -> Mapping[str, str]:
        """TF Serving's methods, `classify` or `regress`, by signature name."""
        ...


def ids_spec(name: str, *shape: int | None) -> tf.TensorSpec:
    """Returns the spec of an int32 input; by default of any batch size and length."""
    return tf.TensorSpec(shape or [None, None], tf.int32, name=name)
