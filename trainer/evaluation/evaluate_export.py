"""Evaluates an exported model on its run's records, and compares the two models.

The model is called through the signature of its task that takes ids and returns all
logits. The signatures for text return only the best results, from which losses cannot
be computed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.saved_models import find_version
from transbeam.configs.cli.progress import Bar
from transbeam.configs.schema.objectives.objective import (
    FillsObjective,
    Seq2SeqObjective,
    TextObjective,
)
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.objectives.traits import input_names, traits
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.trainer.calibration.class_logits import calibrated_outputs
from transbeam.trainer.evaluation.evaluation_loop import Forward
from transbeam.trainer.evaluation.exported_signature import (
    Arrays,
    ExportedSignature,
    Outputs,
    SavedModelSignature,
    TFLiteSignature,
    load_signature,
)
from transbeam.trainer.evaluation.generation_eval import Write
from transbeam.trainer.evaluation.unpacked_documents import DocumentRows, Unpacked
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.objectives.objective_metrics import Batch
from transbeam.trainer.objectives.targets import make_targets

_AS_THEY_ARE = ("token_ids", "segment_ids", "image")
_TEXTS_AT_ONCE = 32


def find_export(path: Path) -> Path:
    """Finds the TFLite file, or the version folder of a SavedModel.

    Raises:
        ArtifactError: There is none.
    """
    if path.suffix != ".tflite":
        return find_version(path)
    if not path.is_file():
        raise ArtifactError(f"{path}: there is no such file. Correct --model")
    return path


def build_exported(path: Path, config: RunConfig, vocabulary_size: int) -> Forward:
    """Builds the function that computes the `answers` of `Loss` with an export.

    Args:
        path: The result of `find_export`.
        config: The run that was exported.
        vocabulary_size: Vocabulary size of the run's tokenizer.

    Raises:
        ArtifactError: The export cannot be loaded, or has no signature with the outputs
            that the objective's metrics need.
    """
    outputs_of = outputs_by(path, config, vocabulary_size)
    loss = make_loss(config, calibrated_outputs(config.objective))
    return lambda batch: loss.answers(outputs_of(batch), batch)


def outputs_by(path: Path, config: RunConfig, vocabulary_size: int) -> Outputs:
    """Builds the function from a batch of records to the outputs of the run's model.

    Arguments and errors are those of `build_exported`.
    """
    objective, name = config.objective, traits(config.objective).ids_signature
    if name is None:
        raise ArtifactError(
            f"{path}: no signature of an export gives the scores by which "
            f"objective.kind={objective.kind} is evaluated. Leave --model out: the "
            "run itself is evaluated"
        )
    signature = load_signature(path, name)
    if isinstance(objective, FillsObjective):
        return _of_packed(path, signature, vocabulary_size)
    if isinstance(objective, TextObjective):
        both = isinstance(objective, Seq2SeqObjective)
        sides = ("encoder_", "decoder_") if both else ("",)
        return _of_all_tokens(path, signature, vocabulary_size, sides)
    names = tuple(target.output for target in make_targets(objective))
    return _of_records(path, signature, names, getattr(objective, "labels", None))


def _of_records(
    path: Path,
    signature: ExportedSignature,
    names: tuple[str, ...],
    labels: Sequence[str] | None,
) -> Outputs:
    """Builds the function that runs a model on records without unpacking documents."""

    def outputs(batch: Batch) -> Arrays:
        features: dict[str, Any] = {name: batch.get(name) for name in _AS_THEY_ARE}
        if "document_ids" in batch:
            features["padding_mask"] = batch["document_ids"] > 0
        inputs = {}
        for name in signature.inputs:
            if features.get(name) is None:
                raise ArtifactError(
                    f"{path}: wants {name}, which the records of this run do not have: "
                    "it was exported from another run"
                )
            dtype = np.uint8 if name == "image" else np.int32
            inputs[name] = features[name].astype(dtype)
        answers = signature(inputs)
        found = {name: answers[name] for name in names}
        size = found[names[0]].shape[-1]
        if labels is not None and size != len(labels):
            raise ArtifactError(
                f"{path}: scores {size} classes, and objective.labels has "
                f"{len(labels)}: it was exported from another run"
            )
        return found

    return outputs


def _of_all_tokens(
    path: Path,
    signature: ExportedSignature,
    vocabulary_size: int,
    sides: tuple[str, ...],
) -> Outputs:
    """Builds the function that runs a language model document by document.

    Args:
        path: The export.
        signature: Its signature.
        vocabulary_size: Vocabulary size of the run's tokenizer.
        sides: Prefixes of the input names, such as `encoder_` and `decoder_`; the
            logits belong to the documents of the last prefix.
    """

    def outputs(batch: Batch) -> Arrays:
        documents = {side: Unpacked.from_batch(batch, side) for side in sides}
        inputs = {}
        for side, of in documents.items():
            inputs[f"{side}token_ids"] = of.token_ids
            inputs[f"{side}padding_mask"] = of.padding_mask
        if "prefix_mask" in batch:
            inputs["prefix_mask"] = documents[""].take_out(batch["prefix_mask"])
        logits = signature(inputs)["logits"]
        _check_vocabulary(path, logits, vocabulary_size)
        return {"logits": documents[sides[-1]].put_back(logits)}

    return outputs


def _check_vocabulary(path: Path, logits: np.ndarray, size: int) -> None:
    if logits.shape[-1] != size:
        raise ArtifactError(
            f"{path}: scores {logits.shape[-1]:,} pieces, and the run's tokenizer "
            f"has {size:,}: it was exported from another run"
        )


def _of_packed(
    path: Path, signature: ExportedSignature, vocabulary_size: int
) -> Outputs:
    """Builds the function that runs a masked language model on packed records.

    A record packs several documents, and an export reads one per row. So the documents
    are unpacked, and their logits are put at the records' masked positions. The result
    is the same, as documents of a record do not attend to each other.
    """

    def outputs(batch: Batch) -> Arrays:
        documents = DocumentRows.from_batch(batch)
        logits = _at_masks(signature, documents)
        _check_vocabulary(path, logits, vocabulary_size)
        return {"logits": documents.put_back(logits)}

    return outputs


def _at_masks(signature: ExportedSignature, documents: DocumentRows) -> np.ndarray:
    """Logits at the documents' masked positions, float32 (D, M, V)."""
    positions, masks = documents.masked_positions, documents.masks
    # A TFLite file takes a fixed number of positions per call.
    most = positions.shape[1]
    if isinstance(signature, TFLiteSignature):
        most = signature.sizes["masked_positions"]
    found = np.zeros((*positions.shape, 0), np.float32)
    for start in range(0, positions.shape[1], most):
        rows = np.flatnonzero(masks > start)
        some = positions[rows, start : start + most]
        logits = signature(
            {
                "token_ids": documents.token_ids[rows],
                "padding_mask": documents.padding_mask[rows],
                "masked_positions": some,
            }
        )["logits"]
        if not found.size:
            found = np.zeros((*positions.shape, logits.shape[-1]), np.float32)
        found[rows, start : start + most] = logits[:, : some.shape[1]]
    return found


def written_by_export(
    path: Path, config: RunConfig, held_out: ValidationDocuments
) -> Write:
    """Builds the generation function of a SavedModel, with its exported settings.

    Args:
        path: The version folder.
        config: The run.
        held_out: The evaluated documents; texts are generated for the first of them.
    """
    columns: dict[str, Sequence[bytes]]
    columns = {name: held_out.texts(name) for name in input_names(config.objective)}

    def write(texts: Sequence[bytes], progress: Bar) -> list[str]:
        signature = SavedModelSignature(path, "serving_default")
        answers = [""] * len(texts)
        if isinstance(config.objective, DialogueConfig):  # its prompts are rendered
            columns["text"] = texts
        # Sorted by length, so that short texts do not wait for long ones.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for start in range(0, len(order), _TEXTS_AT_ONCE):
            rows = order[start : start + _TEXTS_AT_ONCE]
            inputs = {
                name: np.array([column[row] for row in rows], object)
                for name, column in columns.items()
            }
            for row, text in zip(
                rows, signature(inputs)["generated_text"], strict=True
            ):
                answers[row] = text.decode("utf-8")
            progress.advance(len(rows))
        return answers

    return write
