"""One score of attention, dimension by dimension."""

from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.head_observation import layers_with_probabilities
from transbeam.serving.studio.inspected_model import InspectedModel, Inspection


def multiply_query_and_key(
    inspected: InspectedModel,
    inspection: Inspection,
    layer: str,
    head: int,
    query: int,
    attended: int,
) -> Any:
    """Computes what each dimension of a head adds to the score of two tokens.

    Biases of positions, which some models add to scores, are not among the products.

    Args:
        inspected: The model.
        inspection: Its inspection of a text.
        layer: Path of an attention layer.
        head: The head.
        query: Index of the attending token.
        attended: Index of the attended token.

    Returns:
        A JSON object, see `schemas.QUERY_KEY`.

    Raises:
        ConfigError: There is no such layer, head or token.
    """
    layers = {x.path: x for x in layers_with_probabilities(inspected.model)}
    if layer not in layers:
        raise ConfigError(f"layer={layer}: there are {', '.join(layers)}")
    attention = layers[layer]
    names = [f"{layer}/queries", f"{layer}/keys"]
    with recorded(*names) as seen:
        inspected.model(inspection.inputs, training=False)
    queries, keys = (
        keras.ops.convert_to_numpy(seen[name])[0].astype("float64") for name in names
    )
    for name, value, count in (
        ("head", head, queries.shape[1]),
        ("query", query, len(queries)),
        ("attended", attended, len(keys)),
    ):
        if not 0 <= value < count:
            raise ConfigError(f"{name}={value}: there are {count}, from 0")
    # Some kinds of attention let several heads share their keys.
    group = head * keys.shape[1] // queries.shape[1]
    one, other = queries[query, head], keys[attended, group]
    products = one * other * attention.score_scale
    return {
        "query": np.round(one, 5).tolist(),
        "key": np.round(other, 5).tolist(),
        "products": np.round(products, 6).tolist(),
        "score": round(float(products.sum()), 5),
    }
