"""Checkpoints of the original BERT: TensorFlow 1, github.com/google-research/bert."""

import dataclasses
from pathlib import Path

import numpy as np

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.tensor_transforms import (
    TRANSPOSE,
    VOCABULARY,
    Shape,
)
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow, Part
from transbeam.model.weights.hugging_face import bert

_OUR_BLOCK = "encoder_layer_{i}"
_BLOCK = "bert/encoder/layer_{i}"


def _same(ours: str, theirs: str, ends: str, part: Part = "body") -> list[MappingRow]:
    """Maps weights whose last name component is the same in Keras and TensorFlow 1."""
    return [
        MappingRow(f"{ours}/{end}", f"{theirs}/{end}", part=part)
        for end in ends.split()
    ]


def _dense(ours: str, theirs: str, part: Part = "body") -> list[MappingRow]:
    return _same(ours, theirs, "kernel bias", part)


def _norm(ours: str, theirs: str, part: Part = "body") -> list[MappingRow]:
    return _same(ours, f"{theirs}/LayerNorm", "gamma beta", part)


_SELF = f"{_BLOCK}/attention/self"

ROWS = (
    MappingRow(
        "token_embedding/embeddings", "bert/embeddings/word_embeddings", VOCABULARY
    ),
    MappingRow("position_embedding/embeddings", "bert/embeddings/position_embeddings"),
    MappingRow("segment_embedding/embeddings", "bert/embeddings/token_type_embeddings"),
    *_norm("embeddings_norm", "bert/embeddings"),
    *_dense(f"{_OUR_BLOCK}/self_attention/query", f"{_SELF}/query"),
    *_dense(f"{_OUR_BLOCK}/self_attention/key", f"{_SELF}/key"),
    *_dense(f"{_OUR_BLOCK}/self_attention/value", f"{_SELF}/value"),
    *_dense(f"{_OUR_BLOCK}/self_attention/output", f"{_BLOCK}/attention/output/dense"),
    *_norm(f"{_OUR_BLOCK}/self_attention_norm", f"{_BLOCK}/attention/output"),
    *_dense(f"{_OUR_BLOCK}/feedforward/intermediate", f"{_BLOCK}/intermediate/dense"),
    *_dense(f"{_OUR_BLOCK}/feedforward/output", f"{_BLOCK}/output/dense"),
    *_norm(f"{_OUR_BLOCK}/feedforward_norm", f"{_BLOCK}/output"),
    *_dense("pooler", "bert/pooler/dense", "pooler"),
    *_dense("head_dense", "cls/predictions/transform/dense", "head"),
    *_norm("head_norm", "cls/predictions/transform", "head"),
    MappingRow("head_bias/bias", "cls/predictions/output_bias", VOCABULARY, "head"),
    MappingRow(
        "pair_classifier/kernel",
        "cls/seq_relationship/output_weights",
        TRANSPOSE,
        "head",
    ),
    MappingRow("pair_classifier/bias", "cls/seq_relationship/output_bias", part="head"),
)
# Variables of the optimizer.
_NO_WEIGHTS = ("adam_m", "adam_v", "global_step")


class Tf1Source:
    """The variables of a TensorFlow 1 checkpoint.

    Args:
        prefix: The common path of the checkpoint's files, without `.index` and
            `.data-…`.

    Raises:
        ArtifactError: The files are damaged or incomplete.
    """

    def __init__(self, prefix: Path):
        # The import takes seconds, and only this format needs it.
        import tensorflow as tf

        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
        except (tf.errors.OpError, ValueError) as error:
            raise ArtifactError(
                f"{prefix}: no whole TensorFlow checkpoint ({error}). Its .index and "
                ".data files belong side by side"
            ) from error
        self.shapes: dict[str, Shape] = {
            name: tuple(shape)
            for name, shape in self._reader.get_variable_to_shape_map().items()
            if name.rpartition("/")[2] not in _NO_WEIGHTS
        }

    def read(self, name: str) -> np.ndarray:
        return self._reader.get_tensor(name)


def read_tf1_bert(folder: Path) -> Checkpoint:
    """Reads `bert_config.json`, and the only checkpoint beside it.

    The activation `gelu` is read as exact GELU, with which the published weights were
    trained, and which Hugging Face uses; later code in the google-research/bert
    repository approximates GELU.

    Raises:
        ArtifactError: There is no checkpoint or several, or it is damaged.
    """
    found = sorted(folder.glob("*.ckpt*.index"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ArtifactError(
            f"{folder}: expected one TensorFlow checkpoint (such as "
            f"bert_model.ckpt.index) beside bert_config.json, found {names}"
        )
    for file in sorted(folder.glob("*.ckpt*")):
        refuse_lfs_pointer(file)
    source = Tf1Source(found[0].with_suffix(""))
    settings = HFConfig.of_file(folder / "bert_config.json")
    has = {"pooler.dense.weight"} if "bert/pooler/dense/kernel" in source.shapes else {}
    description = bert.read(settings, has)
    if "cls/seq_relationship/output_weights" in source.shapes:
        description = dataclasses.replace(description, objective=SentencePairsConfig())
    return Checkpoint(
        where=str(folder),
        format="tf1",
        family="bert",
        description=description,
        rows=ROWS,
        source=source,
        names={name: name for name in source.shapes},
    )
