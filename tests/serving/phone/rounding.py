"""How far a file with fewer bits is off."""

from collections.abc import Mapping

import numpy as np

from serving.forms import PhoneModel


def off(source: bytes, made: bytes, question: Mapping[str, np.ndarray]) -> float:
    """By how much `logits` of the signature `each` differ, of their size (RMS)."""
    expected, found = (
        PhoneModel(content).run("each", **question)["logits"]
        for content in (source, made)
    )
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))
