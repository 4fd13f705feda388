"""Number formats of the dense layers inside a layer, kept through a save.

A layer hands its dtype policy down to the dense layers it makes. When these were
quantised after that, it must hand down another one to each, or a saved model is built
with float kernels and then given whole numbers to load.
"""

from typing import Any

import keras

# What a dense layer does with its inputs once its kernel is in whole numbers: nothing.
# Keras would round them too, which on a CPU is several times slower, and less exact.
WEIGHTS_ONLY = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)


def part_options(layer: keras.layers.Layer, name: str) -> dict[str, Any]:
    """Returns the dtype options of a layer for a dense layer inside it.

    Args:
        layer: The layer, in its constructor.
        name: That of the dense layer; no other part has it.

    Returns:
        Options of `keras.layers.Dense`: name, dtype policy, and how it is quantised.

    Example:
    >>> options = part_options(keras.layers.Layer(dtype="mixed_bfloat16"), "query")
    >>> keras.layers.Dense(2, **options).dtype_policy.name
    'mixed_bfloat16'
    """
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        # Handed on whole, the map would be read by path; but Keras 3.15 does not do so
        # when it saves a dense layer, and such a model could not be saved again.
        policy = policy[name]
    return {"name": name, "dtype": policy, "quantization_config": WEIGHTS_ONLY}


def policy_config(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the `dtype` entry of `get_config`.

    Args:
        layer: A layer that made its dense layers with `part_options`.

    Returns:
        Its dtype policy; if parts of it are quantised, a map that has theirs by name.
        Serialised.

    Example:
    >>> policy_config(keras.layers.Layer(dtype="float32"))["config"]
    {'name': 'float32'}
    """
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy.default_policy
    quantised = {
        part.name: part.dtype_policy
        for part in layer._flatten_layers(include_self=False, recursive=False)
        if part.quantization_mode is not None
    }
    if quantised:
        policy = keras.dtype_policies.DTypePolicyMap(policy.name, quantised)
    return keras.saving.serialize_keras_object(policy)
