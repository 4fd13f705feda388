"""Loads and calls a SavedModel from Python."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

# By input name: texts, image files, or numbers.
Texts = Mapping[str, Sequence[str] | Sequence[bytes] | np.ndarray]
# Signature and texts → outputs by name.
AskTexts = Callable[[str, Texts], Mapping[str, np.ndarray]]


def ask_saved_model(folder: Path) -> AskTexts:
    """Returns a function that calls a SavedModel, which is loaded at the first call."""

    @cache
    def signatures() -> Any:
        return tf.saved_model.load(str(folder)).signatures

    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        function = signatures()[signature]
        specs = function.structured_input_signature[1]
        inputs = {
            name: tf.constant(of, specs[name].dtype) for name, of in texts.items()
        }
        answers = function(**inputs)
        return {name: value.numpy() for name, value in answers.items()}

    return ask
