"""Statistics of the heads while a model trains: `training.analyze_every`.

    training/analysis.jsonl    a line for each analysis, on the same texts each time

Each line has the step; by layer the mean of each statistic over the texts' tokens, as a
list over heads; the number of idle heads; and by block the participation ratio of the
token vectors, `(sum l) ** 2 / sum l ** 2` of the eigenvalues `l` of their covariance:
between 1, if all vectors lie on a line, and the hidden width.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.activation_hooks import recorded
from transbeam.model.build import build_model
from transbeam.model.inspect.attention_statistics import (
    OFFSETS,
    Statistics,
    attention_statistics,
)
from transbeam.model.inspect.head_observation import check_observable
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts, TextBatch
from transbeam.trainer.analysis.base.text_reading import read_records
from transbeam.trainer.base.weight_files import copy_to_host

ANALYSIS = "analysis.jsonl"
# A head is idle if it attends this much to special tokens or to the first one, which
# adds nothing of the text: Clark et al., 2019, section 3.2, for [SEP].
IDLE = 0.9
_TEXTS, _TOKENS = 64, 4096


class TrainingAnalysis:
    """Analyzes a model on the same texts from time to time, and logs the results.

    The model that is analyzed reads one text per row, in float32; before each analysis
    it takes the weights of the training.

    Args:
        config: The run.
        manifest: The records, from whose validation split the first texts are taken.
        special: The tokenizer's special ids.
        folder: The folder of the log.
        step: The step from which the training goes on; later lines are removed.

    Raises:
        ConfigError: No attention layer of the model has probabilities.
    """

    def __init__(
        self,
        config: RunConfig,
        manifest: Manifest,
        special: SpecialIds,
        folder: Path,
        step: int,
    ):
        self.folder = folder
        self.model = build_model(
            config.model,
            config.objective,
            manifest.vocabulary["size"],
            segments=traits(config.objective).has_segments,
            dtype="float32",
            seed=config.seed,
        )
        check_observable(self.model)
        texts = read_records(manifest, "validation", _TEXTS)
        self.batch = _largest_batch(texts, self.model, config.model.max_sequence_length)
        self.classes = special_tokens(self.batch.inputs, special)
        self._analyze = _compiled(self._statistics)
        rows = [row for row in read_training_analysis(folder) if row["step"] <= step]
        if (folder / ANALYSIS).is_file():
            lines = [json.dumps(row) + "\n" for row in rows]
            write_atomically(folder / ANALYSIS, "".join(lines))

    def __call__(self, step: int, trained: keras.Model) -> dict[str, float]:
        """Analyzes the current weights and appends a line to the log.

        Args:
            step: Updates done.
            trained: The model of the training.

        Returns:
            The numbers for TensorBoard, by name.

        Raises:
            ArtifactError: The line cannot be written.
        """
        self.model.set_weights([copy_to_host(weight) for weight in trained.weights])
        found, ratios = self._analyze(self.batch.inputs, self.classes)
        row = {
            "step": step,
            "layers": {layer: head_means(sums) for layer, sums in found.items()},
            "participation_ratio": {
                block: round(float(ratio), 3) for block, ratio in ratios.items()
            },
        }
        row["idle_heads"] = sum(
            int(np.sum(np.maximum(of["first"], of["special"]) >= IDLE))
            for of in row["layers"].values()
            if "first" in of
        )
        with writing(self.folder), open(self.folder / ANALYSIS, "a") as stream:
            stream.write(json.dumps(row, allow_nan=False) + "\n")
        return _scalars(row)

    def _statistics(
        self, inputs: Mapping[str, Any], classes: Mapping[str, Any]
    ) -> tuple[Statistics, dict[str, Any]]:
        with recorded("/output") as blocks:
            found = attention_statistics(self.model, inputs, classes)
        ratios = {
            path.removesuffix("/output"): participation_ratio(x, _real(path, inputs))
            for path, x in blocks.items()
        }
        return found, ratios


def participation_ratio(vectors: Any, real: Any) -> Any:
    """Computes how many directions token vectors spread over.

    Args:
        vectors: float `(B, T, D)`.
        real: 1 for tokens, 0 for padding, `(B, T)`; at least two tokens. None if there
            is no padding, as in images.

    Returns:
        float32 scalar, `(sum l) ** 2 / sum l ** 2` of the eigenvalues of the vectors'
        covariance; from 1 to `D`.

    Example:
    >>> vectors = np.array([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    >>> float(participation_ratio(vectors, np.ones((1, 4))))
    2.0

    References:
        - [Recanatesi et al., 2019](https://arxiv.org/abs/1906.00443)
    """
    vectors = ops.cast(vectors, "float32")
    real = ops.ones_like(vectors[..., 0]) if real is None else real
    real = ops.expand_dims(ops.cast(real, "float32"), 2)
    vectors = vectors * real
    mean = ops.sum(vectors, axis=(0, 1)) / ops.sum(real)
    centered = ops.reshape((vectors - mean) * real, (-1, vectors.shape[-1]))
    covariance = ops.matmul(ops.transpose(centered), centered)
    return ops.trace(covariance) ** 2 / ops.sum(ops.square(covariance))


def head_means(sums: Mapping[str, Any]) -> dict[str, list[float]]:
    """Computes means over the tokens of all texts, one per head.

    Args:
        sums: The statistics of a layer; see `attention_statistics`.
    """
    values = {name: ops.convert_to_numpy(value) for name, value in sums.items()}
    queries = values["queries"].sum()
    two = max(values["queries_with_two_keys"].sum(), 1)
    means = {
        "entropy": values["entropy"].sum(0) / queries,
        "entropy_share": values["entropy_share"].sum(0) / two,
        "confidence": values["confidence"].sum(0) / queries,
    }
    if "first" in values:
        means["first"] = values["first"].sum(0) / queries
        means["special"] = values["classes"][..., 0].sum(0) / queries
    if "offsets" in values:
        by_offset = values["offsets"].sum(0) / queries  # (H, offsets)
        means["previous"] = by_offset[:, OFFSETS.index(-1)]
        means["next"] = by_offset[:, OFFSETS.index(1)]
    return {
        name: np.round(np.asarray(x, np.float64), 4).tolist()
        for name, x in means.items()
    }


def special_tokens(
    inputs: Mapping[str, np.ndarray], special: SpecialIds
) -> dict[str, np.ndarray]:
    """Marks the begin and end tokens of each stack: 0 or 1, `(B, T, 1)`."""
    ids = [i for i in (special.begin, special.end) if i is not None]
    sides = {"encoder": "encoder_token_ids", "decoder": "decoder_token_ids"}
    if "token_ids" in inputs:
        sides = dict.fromkeys(sides, "token_ids")
    return {
        side: np.isin(inputs[name], ids)[..., np.newaxis].astype(np.float32)
        for side, name in sides.items()
        if name in inputs
    }


def read_training_analysis(folder: Path) -> list[dict[str, Any]]:
    """Reads the lines of the log, except one that a crash truncated."""
    path, rows = folder / ANALYSIS, []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def entropy_points(
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, list[tuple[float, float]]]:
    """Returns the mean entropy of each layer's heads against the step.

    Args:
        rows: The lines of the log.
    """
    layers = rows[-1]["layers"] if rows else {}
    return {
        layer: [
            (row["step"], float(np.mean(row["layers"][layer]["entropy"])))
            for row in rows
            if layer in row["layers"]
        ]
        for layer in layers
    }


def _largest_batch(texts: AnalyzedTexts, model: keras.Model, longest: int) -> TextBatch:
    batches = texts.batches(model, _TOKENS, longest)
    return max(batches, key=lambda batch: len(batch.index))


def _compiled(function: Any) -> Any:
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.function(function, autograph=False)


def _real(path: str, inputs: Mapping[str, Any]) -> Any:
    side = path.partition("_")[0]
    return inputs.get(f"{side}_padding_mask", inputs.get("padding_mask"))


def _scalars(row: Mapping[str, Any]) -> dict[str, float]:
    scalars = {"idle_heads": row["idle_heads"]}
    for layer, of in row["layers"].items():
        scalars[f"entropy/{layer}"] = float(np.mean(of["entropy"]))
    for block, ratio in row["participation_ratio"].items():
        scalars[f"participation_ratio/{block}"] = ratio
    return scalars
