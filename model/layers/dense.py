"""The dense layer that all layers use, and the dtype policies of nested dense layers.

A layer passes its dtype policy to its dense layers. If the dense layers inside a layer
are quantized later, the saved layer must restore the policy of each of them; otherwise
integer weights would be loaded into float kernels.
"""

from typing import Any

import keras

from transbeam.model.kernels.dense import dense

# A dense layer with a quantized kernel does not quantize its inputs. Keras would do so,
# which is less exact, and several times slower on a CPU.
WEIGHTS_ONLY = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)


def inner_dense_options(layer: keras.layers.Layer, name: str) -> dict[str, Any]:
    """Returns the dtype options of a layer for a dense layer inside it.

    Args:
        layer: The calling layer, in its constructor.
        name: The dense layer's name, unique in the layer.

    Returns:
        Options of `keras.layers.Dense`: name, dtype policy, and quantization config.

    Example:
    >>> outer = keras.layers.Layer(dtype="mixed_bfloat16")
    >>> options = inner_dense_options(outer, "query")
    >>> keras.layers.Dense(2, **options).dtype_policy.name
    'mixed_bfloat16'
    """
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        # A complete map would be looked up by path; but Keras 3.15 does not do so when
        # it saves a dense layer, and such a model could not be saved again.
        policy = policy[name]
    return {"name": name, "dtype": policy, "quantization_config": WEIGHTS_ONLY}


def policy_config(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the `dtype` entry of `get_config`.

    Args:
        layer: Any layer; its dense layers have the options from `inner_dense_options`.

    Returns:
        The serialized dtype policy; if inner layers are quantized, a map with their
        policies by name.

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


@keras.saving.register_keras_serializable(package="transbeam")
class Dense(keras.layers.Dense):
    """Keras's dense layer, computed as one kernel with its bias and its activation.

    Arguments, weights, adapters and quantization are those of Keras's layer.

    Call arguments:
        inputs: float `(..., D)`.

    Returns:
        `(..., units)` in the compute dtype.

    Example:
    >>> tuple(Dense(4)(keras.ops.ones((1, 3, 2))).shape)
    (1, 3, 4)

    Masking: passes the Keras mask through unchanged.
    """

    def call(self, inputs, training=None):
        return dense(inputs, self.kernel, self.bias, self.activation)

    def quantize(self, mode=None, type_check=True, config=None):
        # Without `type_check=False` Keras does not quantize subclasses.
        super().quantize(mode, type_check=False, config=config)
