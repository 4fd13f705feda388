"""Contributions of a decoder's parts to the logit of a prediction."""

from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.logit_attribution import (
    attribute_logits,
    find_linear_stack,
)
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection


def explain_prediction(
    inspected: InspectedModel,
    inspection: Inspection,
    position: int,
    token: int | None = None,
    against: int | None = None,
) -> Any:
    """Splits the difference of two logits into contributions of the model's parts.

    Args:
        inspected: The model.
        inspection: Its inspection of a text.
        position: The position after which a token is predicted.
        token: The token whose logit is split; None for the most probable one.
        against: The token that it is compared with; None for the most probable one
            apart from `token`.

    Returns:
        A JSON object, see `schemas.CONTRIBUTIONS`.

    Raises:
        ConfigError: The logits of the model are no sum of contributions, or there is no
            such position or token, or both tokens are the same.
    """
    find_linear_stack(inspected.model)
    length = len(inspection.rows[0].tokens)
    if not 0 <= position < length:
        raise ConfigError(f"position={position}: the text has {length} tokens, from 0")
    outputs = inspected.model(inspection.inputs, training=False)
    logits = keras.ops.convert_to_numpy(outputs["logits"])[0, position]
    order = np.argsort(-logits, kind="stable").tolist()
    chosen = order[0] if token is None else token
    other = next(x for x in order if x != chosen) if against is None else against
    if chosen == other:
        raise ConfigError(f"token={token}, against={against}: they are the same")
    found = attribute_logits(
        inspected.model, inspection.inputs, [position], [chosen], [other]
    )
    logits = logits.astype("float64") - logits.max()
    probabilities = np.exp(logits) / np.exp(logits).sum()
    pieces = inspected.describer.pieces((chosen, other))
    named = [
        {"id": x, "piece": pieces[str(x)], "probability": round(probabilities[x], 6)}
        for x in (chosen, other)
    ]
    return {
        "position": position,
        "token": named[0],
        "against": named[1],
        "difference": round(float(found.logits[0]), 5),
        "parts": [
            {
                "layer": part.layer,
                "head": part.head if part.head >= 0 else None,
                "contribution": round(value, 5),
            }
            for part, value in zip(
                found.parts, found.contributions[0].tolist(), strict=True
            )
        ],
    }
