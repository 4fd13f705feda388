"""TFLite files for phones. The only place that knows the converter."""

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from configs.errors import ArtifactError
from configs.held_back import output_held_back
from configs.run_folder import write_atomically, writing
from model.kernels import for_phones
from pipeline.tokenizers.artifact import read_tokenizer
from serving.phone.litert_lm import bundle_name, write_bundle
from serving.savedmodel import write_endpoints
from serving.tasks import task_of
from serving.tasks.on_phones import cache_slots
from serving.trained import Trained

# In a file made the wrong way these stand where the weights should be, and the
# interpreter answers with whatever its memory holds.
_VARIABLE_OPS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})


def file_name(variant: str) -> str:
    """What the file of a variant is called.

    Example:
    >>> file_name("dynamic_int8")
    'model_dynamic_int8.tflite'
    """
    return f"model_{variant}.tflite"


def write_tflite(trained: Trained, tokenizer: Path, folder: Path) -> dict[str, Path]:
    """Writes the variants that `export.tflite` names, and the vocabulary beside them.

    Shapes are fixed, of one text. `S` is `model.max_sequence_length`, `P` is
    `export.tflite_masks`. Signatures, all ids int32; `segment_ids` only of models
    that tell a pair's texts apart:

    - of masked language models `fill_mask`: `token_ids` (1, S), `padding_mask` (1, S),
      `masked_positions` (1, P) → `logits` (1, P, V). Unused positions are 0; their
      answers mean nothing.
    - of these also `embed`: `token_ids`, `padding_mask` → `embedding` (1, D).
    - of classifiers `classify_ids`: `token_ids`, `padding_mask`, `segment_ids` →
      `logits` (1, C).
    - of models that give numbers `regress_ids`: the same → `score` (1,).
    - of taggers `tag_ids`: `token_ids`, `padding_mask` → `logits` (1, S, C).
    - of models that find answers `read_ids`: as `classify_ids` → `start_logits` and
      `end_logits` (1, S).
    - of classifiers of images `classify_pixels`: `image`, uint8 (1, H, W, P), decoded →
      `logits` (1, C). There is no vocabulary.
    - of models that write those of `serving.tasks.on_phones`; with `export.litert_lm`
      each of their files is also packed for LiteRT-LM.

    Args:
        trained: What to export.
        tokenizer: The run's tokenizer folder, whose vocabulary goes beside the models.
        folder: Made if it is not there.

    Returns:
        The file of each variant.

    Raises:
        ArtifactError: A file has ops that the plain interpreter cannot run, or the
            disk refuses.
    """
    files = {}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # As large as the model, so not in the system's folder for small things.
    with writing(folder), tempfile.TemporaryDirectory(dir=folder) as temporary:
        source = Path(temporary, "saved_model")
        endpoints = task_of(trained).phone_endpoints()
        # Converting functions themselves leaves the weights of a Keras model behind.
        with for_phones():
            write_endpoints(source, endpoints)
        for variant in trained.config.export.tflite:
            content = _convert(source, variant, list(endpoints))
            files[variant] = folder / file_name(variant)
            check_flatbuffer(content, str(files[variant]))
            write_atomically(files[variant], content)
            if trained.config.export.litert_lm:
                bundle = folder / bundle_name(variant)
                slots = cache_slots(trained.config)
                write_bundle(files[variant], tokenizer, bundle, slots)
        if "classify_pixels" not in endpoints:
            for name, content in read_tokenizer(tokenizer).model.files().items():
                write_atomically(folder / name, content)
    return files


def check_flatbuffer(content: bytes, where: str) -> None:
    """Makes sure that the plain interpreter can run a TFLite model as it is.

    Raises:
        ArtifactError: It has an op outside TFLite's own, or variables in place of
            weights.
    """
    names = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    model = schema.Model.GetRootAsModel(content, 0)
    count = model.OperatorCodesLength()
    codes: list[Any] = [model.OperatorCodes(number) for number in range(count)]
    custom = {code.CustomCode().decode() for code in codes if code.CustomCode()}
    # An op number below 127 may stand in the older of the two fields.
    builtin = {
        names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes
    }
    if refused := sorted(custom | (builtin & _VARIABLE_OPS)):
        raise ArtifactError(
            f"{where}: uses {', '.join(refused)}; expected TFLite's builtin ops only, "
            "and weights as constants. Write the layer with other ops"
        )


def _convert(source: Path, variant: str, signatures: list[str]) -> bytes:
    with output_held_back():
        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(source), signature_keys=signatures
        )
        # Otherwise the scale of the head's norm is multiplied into the table of the
        # vocabulary, and the file holds that beside the table of the embedding.
        converter._experimental_disable_fuse_mul_and_fc = True
        if variant == "dynamic_int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return converter.convert()
