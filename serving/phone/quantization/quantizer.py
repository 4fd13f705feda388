"""Smaller variants of a float32 file: the same graph, its numbers in fewer bits.

All are made by AI Edge Quantizer from one converted file, so they have the same
signatures, shapes and inputs, and no answer but a float32 one.
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

from transbeam.configs.system.native_output import output_held_back
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

# Inputs of each signature, a row at a time.
Calibration = Mapping[str, Sequence[Mapping[str, np.ndarray]]]

INT8 = "int8"
IN_4_BITS = frozenset({"weight_int4", "dynamic_int4"})
# That are made by what training texts are like.
CALIBRATED = frozenset({INT8}) | IN_4_BITS

# The layers that make, add to and scale what goes from block to block: sums of all
# that was added before, of which a few numbers are far larger than the others.
_STREAM = ".*(embedding|norm|residual).*"
# What these layers are made of. A dense layer whose bias was fused with one may have
# its name, too.
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
    """A variant of a model.

    Args:
        content: The model in float32.
        variant: One of `export.tflite`, but `float32`:

            - `float16`: weights are kept in half the bytes, and computed with in
              float32, or in float16 where a GPU does it.
            - `dynamic_int8`: weights have 8 bits, one scale for each row; what flows
              is rounded to 8 bits for each product, by its own range.
            - `int8`: both have 8 bits, and ranges are fixed beforehand; only what goes
              from block to block is added up and scaled in float32, and feed-forward
              layers with numbers far larger than others are as in `dynamic_int8`.
            - `weight_int8` and `weight_int4`: as `float16`, with 8 or 4 bits.
            - `dynamic_int4`: as `dynamic_int8`, with weights of 4 bits.
        calibration: For `int8`, what is asked of the model to find the ranges.
        tables: What the variants of 4 bits keep tables of embeddings in, `int4` or
            `int8`; a head that scores with the same table has it so, too.
        rounded: For these variants, the weights that were rounded beforehand; others
            are rounded to the nearest step each.

    Returns:
        The file. Inputs and outputs are those of `content`.
    """
    questions = calibration if variant == INT8 else None
    # It also prints to Python's own stdout, which a notebook has elsewhere.
    quiet = redirect_stdout(io.StringIO())
    with output_held_back(), quiet, warnings.catch_warnings():
        # That an interpreter keeps all tensors, which is what it is for.
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


def _keep_tables(recipe: RecipeManager, variant: str, content: bytes) -> None:
    """Tables of embeddings have 8 bits where everything else has 4.

    A product adds up what its weights are off by, and much of it cancels; nothing of
    what a row is off by does where it is looked up.
    """
    making: Any = recipe
    add = making.add_dynamic_config
    if variant == "weight_int4":
        add = making.add_weight_only_config
    add(regex=".*", operation_name=TFLOperationName.EMBEDDING_LOOKUP, num_bits=8)
    for name in sorted(products_with_tables(content)):
        # Else there would be a second table, of 4 bits.
        add(
            regex=f"(^|;){re.escape(name)};",
            operation_name=TFLOperationName.FULLY_CONNECTED,
            num_bits=8,
        )


def _ranges(content: bytes, calibration: Calibration, recipe: RecipeManager) -> Any:
    """The smallest and the largest of each tensor's numbers.

    The quantizer's own averages forget what was rare, and what was rare is cut off.
    The interpreter notes them, in a seventh of the time of asking after each op.
    """
    calibrator = Calibrator(
        content,
        mode=CalibrationMode.CALIBRATION_PROFILER_BASED,
        qsv_update_func=min_max_update,
    )
    calibrator.calibrate(calibration, recipe)
    return calibrator.get_model_qsvs()


def _with_signs(model: Any, source: Any) -> Any:
    """The model, told which sizes of its inputs and outputs may change.

    The quantizer puts a conversion behind an output, whose result says nothing of it.
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
    """What is done to each op.

    Args:
        variant: As in `quantized`.
        coarse: Of `int8`, the layers to which fixed ranges would do harm.
    """
    recipe: Any = RecipeManager()
    match variant:
        case "float16":
            recipe.add_weight_only_config(
                **_EVERYWHERE, num_bits=16, algorithm_key=AlgorithmName.FLOAT_CASTING
            )
        case "dynamic_int8":
            recipe.add_dynamic_config(**_EVERYWHERE, num_bits=8)
        case "dynamic_int4":
            recipe.add_dynamic_config(**_EVERYWHERE, num_bits=4)
        case "weight_int8":
            recipe.add_weight_only_config(**_EVERYWHERE, num_bits=8)
        case "weight_int4":
            recipe.add_weight_only_config(**_EVERYWHERE, num_bits=4)
        case "int8":
            recipe.add_static_config(
                **_EVERYWHERE, activation_num_bits=8, weight_num_bits=8
            )
            # 256 steps of one size are too few for it.
            for operation in _OF_THE_STREAM:
                recipe.add_quantization_config(
                    regex=_STREAM,
                    operation_name=operation,
                    algorithm_key=AlgorithmName.NO_QUANTIZE,
                )
            # There each token has a range of its own, as in `dynamic_int8`.
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
            # Its kernel gives floats whatever the table has.
            recipe.add_dynamic_config(
                regex=".*",
                operation_name=TFLOperationName.EMBEDDING_LOOKUP,
                num_bits=8,
            )
            # Answers are float32 whatever the variant, for programs that compare them
            # and for caches that go in and out.
            for edge in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
                recipe.add_quantization_config(
                    regex=".*",
                    operation_name=edge,
                    algorithm_key=AlgorithmName.NO_QUANTIZE,
                )
        case _:
            raise ValueError(f"{variant}: not a variant")
    return recipe
