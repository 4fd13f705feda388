"""Predictions of every layer of a model for a text, by the logit lens."""

from typing import Any

import numpy as np

from transbeam.model.inspect.logit_lens import POSITIONS, LensModel, apply_logit_lens
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection

# Tokens that are shown of a prediction.
_TOP = 5


def predict_by_layer(inspected: InspectedModel, inspection: Inspection) -> Any:
    """Reads predictions from the hidden states of every layer, at every token.

    A decoder predicts the next token; an encoder with the head of masked tokens
    predicts the token itself, also where it is not masked.

    Args:
        inspected: The model.
        inspection: Its inspection of a text.

    Returns:
        A JSON object, see `schemas.PREDICTIONS`.

    Raises:
        ConfigError: The model has no logits over its vocabulary.
    """
    lens = LensModel(inspected.model)
    inputs = dict(inspection.inputs)
    # Of an encoder-decoder the decoder predicts.
    row = len(inspection.rows) - 1
    is_masked = POSITIONS in lens.inputs
    if is_masked:
        inputs[POSITIONS] = np.arange(len(inspection.rows[row].tokens), dtype="i4")[
            None
        ]
    found = apply_logit_lens(lens, inputs, top_k=_TOP)
    ids = found.top_ids[:, 0]
    return {
        "row": row,
        "predicts": "masked" if is_masked else "next",
        "layers": list(found.layers),
        "ids": ids.tolist(),
        "probabilities": np.round(found.top_probabilities[:, 0], 5).tolist(),
        "final_ranks": found.target_ranks[:, 0].tolist(),
        "divergences": np.round(found.divergences[:, 0], 4).tolist(),
        "pieces": inspected.describer.pieces(ids.ravel().tolist()),
    }
