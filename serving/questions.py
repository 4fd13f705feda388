"""What a model is asked when it is loaded, and must answer as Keras does now."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.tokenizers.vocabulary import MASK
from serving.golden import Golden
from serving.tasks.interface import Endpoint, Task

# Words, marks, other scripts and nothing; rows of different lengths.
SAMPLES = (
    f"It returns a {MASK} of the same shape, or None.",
    "No café, 漢字 and 123.5!",
    "",
)
_TEXTS = frozenset({"text", "second_text", "target_text", "context", "question"})


def golden_questions(task: Task) -> Iterator[Golden]:
    """A few questions, answered by the Keras model.

    Tokens have to be the same. Of answers only numbers are looked at: which of two
    equally good words, spans or tokens comes first, rounding may decide.

    Args:
        task: Has the signatures.
    """
    endpoints = task.endpoints()
    # What a model writes is a choice of tokens; how probable a text is, a number.
    names = ("tokenize", "score" if "score" in endpoints else "serving_default")
    for name in names:
        inputs = _inputs(endpoints[name])
        found = endpoints[name].function(*map(tf.constant, inputs.values()))
        outputs = {
            output: value.numpy()
            for output, value in found.items()
            if name == "tokenize" or value.dtype.is_floating
        }
        yield Golden(name, inputs, outputs)


def _inputs(endpoint: Endpoint) -> dict[str, np.ndarray]:
    """Of a signature on texts: each input gets the samples in another order."""
    found: dict[str, np.ndarray] = {}
    for place, spec in enumerate(endpoint.inputs):
        name: Any = spec.name  # is given to each
        assert name in _TEXTS, name
        turned = [*SAMPLES[place:], *SAMPLES[:place]]
        found[name] = np.array([text.encode() for text in turned], object)
    return found
