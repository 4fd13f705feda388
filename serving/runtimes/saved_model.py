"""Loads and calls a SavedModel from Python."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from transbeam.pipeline.runtimes.saved_model import SavedModelRunner, SignatureInputs

Texts = SignatureInputs
# Signature and texts → outputs by name.
AskTexts = Callable[[str, Texts], Mapping[str, np.ndarray]]


def load_saved_model_function(folder: Path) -> AskTexts:
    """Returns a function that calls a SavedModel, which is loaded at the first call."""

    @cache
    def load() -> SavedModelRunner:
        return SavedModelRunner(folder)

    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        return load().run(signature, texts)

    return ask
