"""Converts models to TFLite files. No other module uses the TFLite converter."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import tensorflow as tf

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.calibration_file import CALIBRATION
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.native_output import output_on_error
from transbeam.model.kernels.dispatch import for_phones
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun
from transbeam.serving.export.saved_model_writer import write_endpoints
from transbeam.serving.phone.conversion.litert_lm_bundle import (
    bundle_name,
    check_bundle_tokenizer,
    message_template,
    write_bundle,
)
from transbeam.serving.phone.quantization.calibration import make_calibration
from transbeam.serving.phone.quantization.int4_weights import (
    NONE_ROUNDED,
    RoundedWeights,
    round_weights,
)
from transbeam.serving.phone.quantization.quantizer import IN_4_BITS, INT8, quantized
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import (
    check_flatbuffer,
    with_shapes,
)
from transbeam.serving.signatures.base.interface import Endpoint
from transbeam.serving.signatures.generation.tflite_signatures import cache_slots
from transbeam.serving.signatures.task_factory import make_signature_task


def file_name(variant: str, prefix: str = "model") -> str:
    """Returns the file name of a variant.

    Example:
    >>> file_name("dynamic_int8")
    'model_dynamic_int8.tflite'
    """
    return f"{prefix}_{variant}.tflite"


def phone_files(config: RunConfig) -> list[str]:
    """Returns the names of all model files, for the variants of a run."""
    variants = config.export.tflite
    bundles = [bundle_name(each) for each in variants if config.export.litert_lm]
    return [*map(file_name, variants), *bundles]


def rounded_weights(
    trained: TrainedRun, run_folder: Path, folder: Path, console: Console
) -> RoundedWeights:
    """Quantizes a model's weights to 4 bits, if one of the run's variants needs them.

    Args:
        trained: The model.
        run_folder: The run's folder; GPTQ is calibrated on its training records.
        folder: As in `convert`. The folder is created if it does not exist.
        console: Shows the progress.

    Raises:
        ArtifactError: There are too few records, or a file cannot be written.
    """
    if IN_4_BITS.isdisjoint(trained.config.export.tflite):
        return NONE_ROUNDED
    task = make_signature_task(trained)
    endpoints = task.phone_endpoints()
    content = convert(endpoints, task.max_length, folder)
    calibration_inputs = make_calibration(
        trained, run_folder, endpoints, content, filled=False
    )
    return round_weights(content, calibration_inputs, console)


def write_tflite(
    trained: TrainedRun,
    run_folder: Path,
    folder: Path,
    rounded: RoundedWeights = NONE_ROUNDED,
) -> dict[str, Path]:
    """Writes a TFLite file for each variant in `export.tflite`, and the vocabulary.

    If the export applies a temperature, the logits of classifiers are divided by it,
    and a calibration file is written beside the models.

    A file takes one text at a time, padded to `T` tokens (`model.max_sequence_length`)
    unless the inputs are resized to a smaller length, which reduces the computation
    accordingly. `P` is `export.tflite_masks`. The files have the following signatures;
    all ids are int32, and only models with segment embeddings have the input
    `segment_ids`:

    - masked language models, `fill_mask`: `token_ids` (1, T), `padding_mask` (1, T),
      `masked_positions` (1, P) → `logits` (1, P, V). Unused entries of
      `masked_positions` are 0, and their logits are meaningless.
    - masked language models, also `embed`: `token_ids`, `padding_mask` → `embedding`
      (1, D).
    - classifiers, `classify_ids`: `token_ids`, `padding_mask`, `segment_ids` →
      `logits` (1, C).
    - regression models, `regress_ids`: the inputs of `classify_ids` → `score` (1,).
    - token classification models, `tag_ids`: `token_ids`, `padding_mask` → `logits`
      (1, T, C).
    - question answering models, `read_ids`: the inputs of `classify_ids` →
      `start_logits` and `end_logits` (1, T).
    - image classifiers, `classify_pixels`: `image`, uint8 (1, H, W, P), decoded →
      `logits` (1, C). No vocabulary is written for image classifiers.
    - generative models: the signatures of
      `transbeam.serving.signatures.generation.tflite_signatures`; with
      `export.litert_lm` each file is also packed for LiteRT-LM.

    Args:
        trained: The model to export.
        run_folder: The run's folder, with the training records for the calibration of
            `int8` and the tokenizer, whose vocabulary is written beside the models.
        folder: The output folder; created if it does not exist.
        rounded: The result of `rounded_weights`. By default, 4-bit weights are rounded
            to the nearest step.

    Returns:
        The file of each variant.

    Raises:
        ArtifactError: A file has ops that the plain interpreter cannot run, there are
            too few records to calibrate on, or a file cannot be written.
        ConfigError: A file is packed for LiteRT-LM, which would tokenize differently.
    """
    if trained.config.export.litert_lm:
        check_bundle_tokenizer(read_tokenizer(run_folder / TOKENIZER).model)
    task = make_signature_task(trained)
    endpoints = task.phone_endpoints()
    contents = convert_endpoints(trained, run_folder, endpoints, folder, rounded)
    files = write_variants(contents, folder)
    if trained.config.export.litert_lm:
        slots = cache_slots(trained.config)
        for variant, file in files.items():
            bundle = folder / bundle_name(variant)
            template = message_template(trained.config.objective)
            write_bundle(file, run_folder / TOKENIZER, bundle, slots, template)
    if not isinstance(trained.config.objective, ImageObjective):
        tokenizer = read_tokenizer(run_folder / TOKENIZER).model
        content_of = {**tokenizer.files(), **tokenizer.framing.files()}
        for name, content in content_of.items():
            write_atomically(folder / name, content)
    trained.calibration.write(folder / CALIBRATION)
    return files


def write_variants(
    contents: Mapping[str, bytes], folder: Path, prefix: str = "model"
) -> dict[str, Path]:
    """Writes the TFLite file of each variant.

    Args:
        contents: Contents by variant.
        folder: Must exist.
        prefix: As in `file_name`.
    """
    files = {variant: folder / file_name(variant, prefix) for variant in contents}
    for variant, file in files.items():
        write_atomically(file, contents[variant])
    return files


def convert_endpoints(
    trained: TrainedRun,
    run_folder: Path,
    endpoints: Mapping[str, Endpoint],
    folder: Path,
    rounded: RoundedWeights,
    names: Mapping[str, str] = MappingProxyType({}),
    custom_ops: frozenset[str] = frozenset(),
) -> dict[str, bytes]:
    """Converts functions to TFLite files, in the variants that `export.tflite` lists.

    Args:
        trained: The trained model; its configuration defines the variants and the
            maximum length.
        run_folder: The run's folder, with the training records for calibration.
        endpoints: The signatures.
        folder: For temporary files. The folder is created if it does not exist.
        rounded: As in `write_tflite`.
        names: The new name of each renamed input, mapped to its name in the other
            TFLite files.
        custom_ops: Custom ops that a file may use. If custom ops are allowed, `int8` is
            skipped, because the interpreter for calibration cannot run custom ops.

    Raises:
        ArtifactError: As `write_tflite`.
    """
    variants = trained.config.export.tflite
    longest = make_signature_task(trained).max_length
    if custom_ops:  # the quantizer's interpreter has none of them
        variants = [each for each in variants if each != INT8]
    # Float32 models, one for each way of tracing that is needed.
    sources = {
        in_int8: convert(
            endpoints, longest, folder, in_int8=in_int8, custom_ops=custom_ops
        )
        for in_int8 in {variant == INT8 for variant in variants}
    }
    calibration = None
    if True in sources:
        calibration = make_calibration(
            trained, run_folder, endpoints, sources[True], names
        )
    contents = {}
    for variant in variants:
        content = sources[variant == INT8]
        if variant != "float32":
            tables = trained.config.export.tflite_tables
            content = quantized(content, variant, calibration, tables, rounded)
        check_flatbuffer(content, f"{folder}: {variant}", custom_ops)
        contents[variant] = content
    return contents


def convert(
    endpoints: Mapping[str, Endpoint],
    max_length: int,
    folder: Path,
    *,
    in_int8: bool = False,
    custom_ops: frozenset[str] = frozenset(),
) -> bytes:
    """Converts functions to the signatures of a float32 TFLite file.

    Args:
        endpoints: Functions with their input specifications, for batches of size 1.
            Users of the file can resize axes of size None.
        max_length: The initial size of resizable axes.
        folder: Folder that temporarily holds a SavedModel as large as the model.
            The folder is created if it does not exist.
        in_int8: Whether the file will be quantized to int8 with static ranges.
        custom_ops: As in `convert_endpoints`.
    """
    # As large as the model, so not in the system's temporary folder.
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), tempfile.TemporaryDirectory(dir=folder) as temporary:
        source = Path(temporary, "saved_model")
        # Conversion from concrete functions would lose the weights of a Keras model.
        write_endpoints(source, endpoints, tracing=partial(for_phones, in_int8=in_int8))
        with output_on_error():
            converter = tf.lite.TFLiteConverter.from_saved_model(
                str(source), signature_keys=list(endpoints)
            )
            # Otherwise the scale of the head's norm is fused into the tied vocabulary
            # matrix, and the file stores the product besides the embedding table.
            converter._experimental_disable_fuse_mul_and_fc = True
            converter.allow_custom_ops = bool(custom_ops)
            content = converter.convert()
    sizes = {
        name: {
            str(spec.name): tuple(max_length if n is None else n for n in spec.shape)
            for spec in endpoint.inputs
        }
        for name, endpoint in endpoints.items()
    }
    return content if custom_ops else with_shapes(content, sizes)
