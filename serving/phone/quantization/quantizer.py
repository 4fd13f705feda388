"""Quantizes a float32 TFLite file to smaller variants of the same graph.

All variants are made by AI Edge Quantizer from one converted file, so they have the
same signatures, shapes and inputs, and float32 outputs.
"""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from ai_edge_quantizer import quantizer
from ai_edge_quantizer.calibrator import CalibrationMode, Calibrator
from ai_edge_quantizer.qtyping import TFLOperationName
from ai_edge_quantizer.recipe_manager import AlgorithmName, RecipeManager
from ai_edge_quantizer.utils.qsv_utils import min_max_update

from transbeam.configs.system.native_output import output_on_error
from transbeam.serving.phone.quantization.int4_weights import (
    NONE_ROUNDED,
    RoundedWeights,
    with_rounded,
)
from transbeam.serving.phone.quantization.outliers import coarse_layers
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import (
    packed,
    products_with_tables,
    unpacked,
)

# Calibration inputs of each signature, of batch size 1.
Calibration = Mapping[str, Sequence[Mapping[str, np.ndarray]]]

INT8 = "int8"
IN_4_BITS = frozenset({"weight_int4", "dynamic_int4"})
# Variants that need calibration on training records.
CALIBRATED = frozenset({INT8}) | IN_4_BITS

# The layers of the residual stream, whose values are sums over all layers before, with
# a few that are far larger than the others.
_STREAM = ".*(embedding|norm|residual).*"
# The ops of these layers. A dense layer whose bias was fused with one may have its
# name, too.
_OF_THE_STREAM = (
    TFLOperationName.ADD,
    TFLOperationName.MEAN,
    TFLOperationName.MUL,
    TFLOperationName.RESHAPE,
    TFLOperationName.RSQRT,
    TFLOperationName.SLICE,
    TFLOperationName.SQUARED_DIFFERENCE,
    TFLOperationName.SUB,
)
_EVERYWHERE = {"regex": ".*", "operation_name": TFLOperationName.ALL_SUPPORTED}


def quantized(
    content: bytes,
    variant: str,
    calibration: Calibration | None = None,
    tables: str = "int4",
    rounded: RoundedWeights = NONE_ROUNDED,
) -> bytes:
    """Quantizes a float32 TFLite file to a smaller variant.

    Args:
        content: The content of the float32 TFLite file.
        variant: One of `export.tflite`, except `float32`:

            - `float16`: weights are stored in float16; computation is in float32, or in
              float16 on a GPU.
            - `dynamic_int8`: weights have 8 bits, one scale per row; activations are
              quantized to 8 bits for each product, with dynamic ranges.
            - `int8`: weights and activations have 8 bits, with static ranges; only the
              residual stream is added and normalized in float32, and feed-forward
              layers with outliers are as in `dynamic_int8`.
            - `weight_int8`, `weight_int4`: weights have 8 or 4 bits, else as `float16`.
            - `dynamic_int4`: as `dynamic_int8`, with weights of 4 bits.
        calibration: For `int8`, the inputs for measuring the ranges.
        tables: The dtype of embedding tables in 4-bit variants, `int4` or `int8`; also
            the dtype of a head that shares the table.
        rounded: For 4-bit variants, weights that were quantized beforehand; all other
            weights are rounded to the nearest step.

    Returns:
        The file. The quantized file has the same inputs and outputs as `content`.
    """
    questions = calibration if variant == INT8 else None
    # It also prints to Python's `sys.stdout`, which notebooks redirect.
    quiet = redirect_stdout(io.StringIO())
    with output_on_error(), quiet, warnings.catch_warnings():
        # Preserving all tensors is intended.
        warnings.filterwarnings("ignore", message=".*experimental_preserve_all_tensors")
        coarse = coarse_layers(content, questions) if questions else []
        recipe = _recipe(variant, coarse)
        if variant in IN_4_BITS and tables == "int8":
            _keep_tables(recipe, variant, content)
        ranges = _ranges(content, questions, recipe) if questions else None
        making = quantizer.Quantizer(content)
        making.load_quantization_recipe(recipe.get_quantization_recipe())
        found = making.quantize(ranges).quantized_model
    model, source = unpacked(found or b""), unpacked(content)
    if variant in IN_4_BITS:
        model = with_rounded(model, source, rounded)
    return packed(_with_signs(model, source))


def _keep_tables(recipe: Any, variant: str, content: bytes) -> None:
    """Configures embedding tables with 8 bits in 4-bit variants.

    In a matrix product the rounding errors of the weights are summed and partly cancel;
    in an embedding lookup they do not cancel.
    """
    add = recipe.add_dynamic_config
    if variant == "weight_int4":
        add = recipe.add_weight_only_config
    add(regex=".*", operation_name=TFLOperationName.EMBEDDING_LOOKUP, num_bits=8)
    for name in sorted(products_with_tables(content)):
        # Otherwise there would be a second, 4-bit table.
        add(
            regex=f"(^|;){re.escape(name)};",
            operation_name=TFLOperationName.FULLY_CONNECTED,
            num_bits=8,
        )


def _ranges(content: bytes, calibration: Calibration, recipe: RecipeManager) -> Any:
    """Measures the minimum and maximum of each tensor.

    The quantizer's default moving averages discard rare values, so that these values
    would be clipped. Profiling in the interpreter takes a seventh of the time of
    evaluating op by op.
    """
    calibrator = Calibrator(
        content,
        mode=CalibrationMode.CALIBRATION_PROFILER_BASED,
        qsv_update_func=min_max_update,
    )
    calibrator.calibrate(calibration, recipe)
    return calibrator.get_model_qsvs()


def _with_signs(model: Any, source: Any) -> Any:
    """Restores the dynamic sizes of a model's inputs and outputs.

    The quantizer adds a dtype conversion after an output, and the converted output has
    static sizes.
    """
    for ours, theirs in zip(model.signatureDefs, source.signatureDefs, strict=True):
        for edges in ("inputs", "outputs"):
            known = {
                edge.name: source.subgraphs[theirs.subgraphIndex].tensors[
                    edge.tensorIndex
                ]
                for edge in getattr(theirs, edges)
            }
            tensors = model.subgraphs[ours.subgraphIndex].tensors
            for edge in getattr(ours, edges):
                signs = known[edge.name].shapeSignature
                tensors[edge.tensorIndex].shapeSignature = signs
    return model


def _recipe(variant: str, coarse: Sequence[str]) -> RecipeManager:
    """Returns the quantization recipe of a variant.

    Args:
        variant: As in `quantized`.
        coarse: For `int8`, the layers that static ranges would degrade.
    """
    recipe: Any = RecipeManager()
    match variant:
        case "float16":
            recipe.add_weight_only_config(
                **_EVERYWHERE, num_bits=16, algorithm_key=AlgorithmName.FLOAT_CASTING
            )
        case "dynamic_int8" | "dynamic_int4":
            recipe.add_dynamic_config(**_EVERYWHERE, num_bits=int(variant[-1]))
        case "weight_int8" | "weight_int4":
            recipe.add_weight_only_config(**_EVERYWHERE, num_bits=int(variant[-1]))
        case "int8":
            recipe.add_static_config(
                **_EVERYWHERE, activation_num_bits=8, weight_num_bits=8
            )
            # 256 equal steps are too coarse for the residual stream.
            for operation in _OF_THE_STREAM:
                recipe.add_quantization_config(
                    regex=_STREAM,
                    operation_name=operation,
                    algorithm_key=AlgorithmName.NO_QUANTIZE,
                )
            # These layers have dynamic ranges, as in `dynamic_int8`.
            for layer in coarse:
                within = f"(^|;){re.escape(layer)}/"
                recipe.add_quantization_config(
                    regex=within,
                    operation_name=TFLOperationName.ALL_SUPPORTED,
                    algorithm_key=AlgorithmName.NO_QUANTIZE,
                )
                recipe.add_dynamic_config(
                    regex=within,
                    operation_name=TFLOperationName.FULLY_CONNECTED,
                    num_bits=8,
                )
            # Its kernel returns floats whatever the dtype of the table.
            recipe.add_dynamic_config(
                regex=".*",
                operation_name=TFLOperationName.EMBEDDING_LOOKUP,
                num_bits=8,
            )
            # Outputs are float32 in all variants, for programs that compare them and
            # for caches, which are outputs and inputs.
            for edge in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
                recipe.add_quantization_config(
                    regex=".*",
                    operation_name=edge,
                    algorithm_key=AlgorithmName.NO_QUANTIZE,
                )
        case _:
            raise ValueError(f"{variant}: not a variant")
    return recipe
