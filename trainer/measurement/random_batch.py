"""Batches of random records, for measurements without a corpus."""

from dataclasses import replace
from typing import Any

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.features import Feature


def with_static_masks(run: RunConfig) -> RunConfig:
    """Replaces dynamic masking, after which the model reads the same features."""
    if isinstance(run.objective, MaskedConfig) and run.objective.masking == "dynamic":
        return replace(run, objective=replace(run.objective, masking="static"))
    return run


def random_batch(run: RunConfig, vocabulary_size: int, seed: int = 0) -> dict[str, Any]:
    """Draws a batch of full-length records with one document in each.

    Args:
        run: The run, whose records have static masks.
        vocabulary_size: Number of tokens to draw from.
        seed: Seed of the random numbers.

    Returns:
        The features of the run's record contract, each `(training.batch_size, …)`.
    """
    random = np.random.default_rng(seed)
    rows = run.training.batch_size
    return {
        feature.name: _draw(feature, run, vocabulary_size, rows, random)
        for feature in contract(run)
    }


def _draw(
    feature: Feature,
    run: RunConfig,
    vocabulary_size: int,
    rows: int,
    random: np.random.Generator,
) -> np.ndarray:
    shape = (rows, *feature.shape)
    name = feature.name.removeprefix("encoder_").removeprefix("decoder_")
    values = _fixed(name, shape)
    if values is None and name in _TOKENS:
        values = random.integers(0, vocabulary_size, shape)
    if values is None and name in _PLACES:
        values = random.integers(0, run.data.sequence_length, shape)
    if values is None:
        values = _target(name, feature, run, shape, random)
    return np.ascontiguousarray(values, feature.dtype)


_TOKENS = ("token_ids", "target_ids", "masked_ids")
_PLACES = ("start_position", "end_position", "context_start")


def _fixed(name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The values of features that are the same in every full record."""
    if name.endswith("weights"):
        return np.ones(shape)
    if name == "document_ids":
        # Several texts of a record are numbered; a text alone is the first.
        texts = shape[1] if len(shape) == 3 else 1
        return np.broadcast_to(np.arange(1, texts + 1)[:, None], shape)
    if name == "position_ids":
        return np.broadcast_to(np.arange(shape[-1]), shape)
    if name in ("segment_ids", "prefix_mask"):
        is_first = np.arange(shape[-1]) < shape[-1] // 2
        return np.broadcast_to(is_first == (name == "prefix_mask"), shape)
    return None


def _target(
    name: str,
    feature: Feature,
    run: RunConfig,
    shape: tuple[int, ...],
    random: np.random.Generator,
) -> np.ndarray:
    match name:
        case "masked_positions":
            every = np.tile(np.arange(run.data.sequence_length), (shape[0], 1))
            return np.sort(random.permuted(every, axis=1)[:, : shape[1]], axis=1)
        case "text_hashes":
            return random.permutation(int(np.prod(shape))).reshape(shape) + 1
        case "image":
            return random.integers(0, 256, shape)
        case _ if name == "label" and feature.dtype == "float32":
            return random.normal(size=shape)
        case _ if name.endswith(("label", "label_ids")):
            return random.integers(0, _classes(run, feature), shape)
        case _:
            raise NotImplementedError(f"{feature.name}: draw values of it here")


def _classes(run: RunConfig, feature: Feature) -> int:
    """Number of classes of a label; 2 for yes or no."""
    labels = getattr(run.objective, "labels", ())
    is_set = feature.name == "label" and feature.shape == (len(labels),)
    return 2 if is_set or not labels else len(labels)
