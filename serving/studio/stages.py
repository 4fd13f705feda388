"""A text's way through a model: what is computed, in which shape and how large."""

from typing import Any

import keras
import numpy as np

from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection


def describe_stages(inspected: InspectedModel, inspection: Inspection) -> Any:
    """Describes the arrays on a text's way, in the order of their computation.

    Args:
        inspected: The model.
        inspection: Its inspection of a text.

    Returns:
        A JSON object, see `schemas.STAGES`: for each array its path, its shape without
        the batch, and, for vectors of tokens, their mean length (L2 norm); the heads of
        a token count as one vector.
    """
    model = with_hidden_states(inspected.model)
    with recorded() as seen:
        outputs = model(inspection.inputs, training=False)
    read = {name: inspection.inputs[name] for name in inspected.model.input}
    embeddings = {name: x for name, x in outputs.items() if name.endswith("embeddings")}
    answers = {name: outputs[name] for name in inspected.model.output}
    return {
        "stages": [
            *(_describe("input", name, x) for name, x in read.items()),
            *(_describe("embeddings", name, x) for name, x in embeddings.items()),
            *(_describe("block", path, x) for path, x in seen.items()),
            *(_describe("output", name, x) for name, x in answers.items()),
        ]
    }


def _describe(part: str, path: str, value: Any) -> dict[str, Any]:
    array = keras.ops.convert_to_numpy(value)[0]
    length = None
    if part in ("embeddings", "block"):
        vectors = array.reshape(len(array), -1).astype("float64")
        length = round(float(np.linalg.norm(vectors, axis=1).mean()), 4)
    return {"part": part, "path": path, "shape": list(array.shape), "length": length}
