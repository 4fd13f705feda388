"""TFLite files for phones. The only place that knows the converter."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import tensorflow as tf

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.native_output import output_held_back
from transbeam.model.kernels.dispatch import for_phones
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun
from transbeam.serving.export.saved_model_writer import write_endpoints
from transbeam.serving.phone.conversion.litert_lm_bundle import (
    bundle_name,
    write_bundle,
)
from transbeam.serving.phone.quantization.calibration import calibration_of
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
from transbeam.serving.signatures.task_factory import task_of


def file_name(variant: str) -> str:
    """What the file of a variant is called.

    Example:
    >>> file_name("dynamic_int8")
    'model_dynamic_int8.tflite'
    """
    return f"model_{variant}.tflite"


def phone_files(config: RunConfig) -> list[str]:
    """The names of all files that hold the model, of the variants of a run."""
    variants = config.export.tflite
    bundles = [bundle_name(each) for each in variants if config.export.litert_lm]
    return [*map(file_name, variants), *bundles]


def rounded_weights(
    trained: TrainedRun, run_folder: Path, folder: Path, console: Console
) -> RoundedWeights:
    """A model's weights in 4 bits, if a run's files are to have such.

    Args:
        trained: The model.
        run_folder: On its training records weights are rounded.
        folder: As in `convert`. Made if it is not there.
        console: Told how far it has come.

    Raises:
        ArtifactError: There are too few records, or the disk refuses.
    """
    if IN_4_BITS.isdisjoint(trained.config.export.tflite):
        return NONE_ROUNDED
    task = task_of(trained)
    endpoints = task.phone_endpoints()
    content = convert(endpoints, task.max_length, folder)
    asked = calibration_of(trained, run_folder, endpoints, content, filled=False)
    return round_weights(content, asked, console)


def write_tflite(
    trained: TrainedRun,
    run_folder: Path,
    folder: Path,
    rounded: RoundedWeights = NONE_ROUNDED,
) -> dict[str, Path]:
    """Writes the variants that `export.tflite` names, and the vocabulary beside them.

    A file takes one text at a time, of `model.max_sequence_length` tokens (`T`) unless
    its inputs are resized to fewer: it then does that much less work. `P` is
    `export.tflite_masks`. Signatures, all ids int32; `segment_ids` only of models that
    tell a pair's texts apart:

    - of masked language models `fill_mask`: `token_ids` (1, T), `padding_mask` (1, T),
      `masked_positions` (1, P) → `logits` (1, P, V). Unused positions are 0; their
      answers mean nothing.
    - of these also `embed`: `token_ids`, `padding_mask` → `embedding` (1, D).
    - of classifiers `classify_ids`: `token_ids`, `padding_mask`, `segment_ids` →
      `logits` (1, C).
    - of models that give numbers `regress_ids`: the same → `score` (1,).
    - of taggers `tag_ids`: `token_ids`, `padding_mask` → `logits` (1, T, C).
    - of models that find answers `read_ids`: as `classify_ids` → `start_logits` and
      `end_logits` (1, T).
    - of classifiers of images `classify_pixels`: `image`, uint8 (1, H, W, P), decoded →
      `logits` (1, C). There is no vocabulary.
    - of models that write those of
      `transbeam.serving.signatures.generation.tflite_signatures`; with
      `export.litert_lm` each of their files is also packed for LiteRT-LM.

    Args:
        trained: What to export.
        run_folder: Its training records are what `int8` is calibrated on, and its
            tokenizer's vocabulary goes beside the models.
        folder: Made if it is not there.
        rounded: Those of `rounded_weights`. Without, the weights of files in 4 bits
            are rounded to the nearest step.

    Returns:
        The file of each variant.

    Raises:
        ArtifactError: A file has ops that the plain interpreter cannot run, there are
            too few records to calibrate on, or the disk refuses.
    """
    task = task_of(trained)
    endpoints = task.phone_endpoints()
    made = convert_endpoints(trained, run_folder, endpoints, folder, rounded)
    files = write_variants(made.items(), folder, file_name)
    if trained.config.export.litert_lm:
        slots = cache_slots(trained.config)
        for variant, file in files.items():
            bundle = folder / bundle_name(variant)
            write_bundle(file, run_folder / TOKENIZER, bundle, slots)
    if "classify_pixels" not in endpoints:
        tokenizer = read_tokenizer(run_folder / TOKENIZER).model
        content_of = {**tokenizer.files(), **tokenizer.framing.files()}
        for name, content in content_of.items():
            write_atomically(folder / name, content)
    return files


def write_variants(
    made: Iterable[tuple[str, bytes]], folder: Path, name: Callable[[str], str]
) -> dict[str, Path]:
    """Writes the file of each variant.

    Args:
        made: Variants, and what they are.
        folder: Is there.
        name: What the file of a variant is called.
    """
    files = {}
    for variant, content in made:
        files[variant] = folder / name(variant)
        write_atomically(files[variant], content)
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
    """Some functions as files, in the variants that `export.tflite` names.

    Args:
        trained: Says which, and how long texts are.
        run_folder: Has the records to calibrate on.
        endpoints: The signatures.
        folder: Has room for what is made on the way. Made if it is not there.
        rounded: As in `write_tflite`.
        names: What inputs are called here that have other names elsewhere.
        custom_ops: Those outside of TFLite's own that a file may use. Then there is
            no `int8`, which has to be run to be made.

    Raises:
        ArtifactError: As `write_tflite`.
    """
    variants, longest = trained.config.export.tflite, task_of(trained).max_length
    if custom_ops:  # the quantizer's interpreter has none of them
        variants = [each for each in variants if each != INT8]
    # In float32, once for each way of tracing that is needed.
    sources = {
        in_int8: convert(
            endpoints, longest, folder, in_int8=in_int8, custom_ops=custom_ops
        )
        for in_int8 in {variant == INT8 for variant in variants}
    }
    calibration = None
    if True in sources:
        calibration = calibration_of(
            trained, run_folder, endpoints, sources[True], names
        )
    made = {}
    for variant in variants:
        content = sources[variant == INT8]
        if variant != "float32":
            tables = trained.config.export.tflite_tables
            content = quantized(content, variant, calibration, tables, rounded)
        check_flatbuffer(content, f"{folder}: {variant}", custom_ops)
        made[variant] = content
    return made


def convert(
    endpoints: Mapping[str, Endpoint],
    max_length: int,
    folder: Path,
    *,
    in_int8: bool = False,
    custom_ops: frozenset[str] = frozenset(),
) -> bytes:
    """Functions as the signatures of a float32 TFLite file.

    Args:
        endpoints: Of one text each. A size that is None may be changed by who uses the
            file.
        max_length: What such a size is until then.
        folder: Where a SavedModel of the same size may stand for a while. Made if it is
            not there.
        in_int8: Whether the file will be rounded to 8 bits, ranges and all.
        custom_ops: As in `convert_endpoints`.
    """
    # As large as the model, so not in the system's folder for small things.
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), tempfile.TemporaryDirectory(dir=folder) as temporary:
        source = Path(temporary, "saved_model")
        # Converting functions themselves leaves the weights of a Keras model behind.
        write_endpoints(source, endpoints, tracing=partial(for_phones, in_int8=in_int8))
        with output_held_back():
            converter = tf.lite.TFLiteConverter.from_saved_model(
                str(source), signature_keys=list(endpoints)
            )
            # Otherwise the scale of the head's norm is multiplied into the table of the
            # vocabulary, and the file holds that beside the table of the embedding.
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
