"""Weight-only quantization to 8 or 4 bits."""

from collections.abc import Sequence
from typing import Literal

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.adaptation.freezing import forget_training
from transbeam.model.base.weight_paths import matching
from transbeam.model.layers.dense import WEIGHTS_ONLY
from transbeam.model.layers.quantized_embedding import Int8Table

# int4 has a scale and a zero point for this many numbers of a column: with one per
# column, a single outlier would leave few levels for the other numbers.
INT4_BLOCK = 128


def quantise(
    model: keras.Model,
    mode: Literal["int8", "int4"] = "int8",
    *,
    targets: Sequence[str] = ("*",),
) -> None:
    """Quantizes the weights of dense layers and of token embeddings, in place.

    Computation stays in float: only storage shrinks, by almost 4 or 8 times if most
    weights are in dense layers. On a CPU quantization saves memory and download size
    but no time: TensorFlow dequantizes a kernel whenever it multiplies with it.

    A kernel has one scale for each column in int8, and for each 128 numbers of a column
    in int4. A token embedding has one scale for each token, and 8 bits in int8 and in
    int4 mode. Norms, biases and the small tables of positions and segments are not
    quantized.

    The model is saved and loaded like any other. To load a `.weights.h5` file of a
    quantized model, first build the model and quantize it in the same way.

    Args:
        model: A built model without adapters. Add adapters after quantization
            (`enable_lora`).
        mode: `"int8"` or `"int4"`.
        targets: Patterns of the paths of layers; see
            `transbeam.model.base.weight_paths.matching`.

    Raises:
        ConfigError: The mode is unknown, a pattern matches no layer, or a layer is
            already quantized, has an adapter, or computes in float16, for which Keras
            has no int8 weights.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> quantise(encoder, "int8")
    >>> encoder.get_layer("token_embedding").embeddings.dtype
    'int8'

    References:
        - [Jacob et al., 2018](https://arxiv.org/abs/1712.05877), section 2.1, here
          without its zero point in int8, and for weights only
        - [Dettmers et al., 2022](https://arxiv.org/abs/2208.07339), section 2.1
          (one scale for a vector)
    """
    match mode:
        case "int8":
            config = WEIGHTS_ONLY
        case "int4":
            config = keras.quantizers.Int4QuantizationConfig(block_size=INT4_BLOCK)
        case _:
            raise ConfigError(f"mode={mode!r} is not one of 'int8', 'int4'")
    layers = {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense | Int8Table)
    }
    chosen = matching(layers, targets, "layer that can be quantised")
    for path in chosen:
        _check(path, layers[path], mode)
    model.quantize(mode, config=config, filters=lambda layer: layer.path in chosen)
    forget_training(model)


def weight_bytes(model: keras.Model) -> int:
    """Counts the bytes of a model's weights as they are stored.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> weight_bytes(model)
    32
    """
    return sum(ops.convert_to_numpy(weight).nbytes for weight in model.weights)


def _check(path: str, layer: keras.layers.Layer, mode: str) -> None:
    int8 = mode == "int8" or isinstance(layer, Int8Table)
    if int8 and layer.compute_dtype == "float16":
        raise ConfigError(
            f"{path} computes in float16, and Keras makes no int8 weights for that; "
            "build the model with dtype=float32 or mixed_bfloat16, load its "
            "weights, and quantise that"
        )
    if layer.quantization_mode is not None:
        raise ConfigError(
            f"{path} is quantised already ({layer.quantization_mode}); build the model "
            "afresh from its float weights, or leave this layer out of the targets"
        )
    if getattr(layer, "lora_enabled", False):
        raise ConfigError(
            f"{path} has an adapter; merge it (merge_lora), or quantise first and put "
            "adapters beside that"
        )
