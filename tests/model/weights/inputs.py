"""Inputs for models of imported weights and for their references."""

import numpy as np

from tests.model.weights.hugging_face_checkpoints import VOCABULARY


def source_mask() -> np.ndarray:
    """Two texts of 6 and 4 tokens."""
    return (np.arange(6) < [[6], [4]]).astype("int32")


def source_ids(model_type: str) -> np.ndarray:
    """Their tokens. RoBERTa counts positions by what is not its padding token, 1."""
    ids = (np.arange(12).reshape(2, 6) * 7 + 2) % (VOCABULARY - 2) + 2
    padding = 1 if model_type == "roberta" else 0
    return np.where(source_mask(), ids, padding).astype("int32")


def target_ids() -> np.ndarray:
    """The decoder inputs of a pair: (2, 5)."""
    return ((np.arange(10).reshape(2, 5) * 5 + 1) % VOCABULARY).astype("int32")


def image() -> np.ndarray:
    """Two images of 6 times 6 pixels, uint8."""
    return (np.arange(2 * 6 * 6 * 3).reshape(2, 6, 6, 3) * 37 % 256).astype("uint8")
