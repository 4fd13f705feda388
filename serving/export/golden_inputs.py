"""Makes the golden requests that a server runs when it loads a model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.vocabulary import MASK, sentinel_pieces
from transbeam.serving.base.golden_requests import Golden
from transbeam.serving.images.samples import sample_images
from transbeam.serving.signatures.base.interface import Endpoint, SignatureTask

(GAP,) = sentinel_pieces(1)
# Words, punctuation, other scripts and an empty text; rows of different lengths.
SAMPLES = (
    f"It returns a {MASK} of the same shape, or None.",
    f"No café, 漢字 and {GAP} 123.5!",
    "",
)
_TEXTS = frozenset({"text", "second_text", "target_text", "context", "question"})


def golden_questions(task: SignatureTask, dtype: str = "float32") -> Iterator[Golden]:
    """Yields a few requests with the outputs of the Keras model.

    Tokens and pixels have to be equal. Of other outputs only floats are compared: which
    of two equally probable words, spans or tokens is first may depend on rounding.

    Args:
        task: Has the signatures.
        dtype: The dtype of the computation: outputs are stored with its precision.
    """
    endpoints = task.endpoints()
    # Generated tokens depend on rounding; the log-likelihood of a text is a number.
    read = "tokenize" if "tokenize" in endpoints else "pixels"
    names = (read, "score" if "score" in endpoints else "serving_default")
    for name in names:
        inputs = _inputs(endpoints[name])
        found = endpoints[name].function(*map(tf.constant, inputs.values()))
        if name == read:
            outputs = {output: value.numpy() for output, value in found.items()}
        else:
            outputs = {
                output: tf.cast(value, dtype).numpy()
                for output, value in found.items()
                if value.dtype.is_floating
            }
        yield Golden(name, inputs, outputs)


def _inputs(endpoint: Endpoint) -> dict[str, np.ndarray]:
    """Returns images, or texts: each input has the samples in another order."""
    found: dict[str, np.ndarray] = {}
    for place, spec in enumerate(endpoint.inputs):
        name: Any = spec.name  # is given to each
        if name == "image_bytes":
            found[name] = np.array(sample_images(), object)
            continue
        assert name in _TEXTS, name
        turned = [*SAMPLES[place:], *SAMPLES[:place]]
        found[name] = np.array([text.encode() for text in turned], object)
    return found
