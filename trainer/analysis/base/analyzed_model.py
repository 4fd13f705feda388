"""Loads the model that an analysis looks into: of a run, or of one of its checkpoints.

The model reads one text per row, in float32. An imported model may lack the head of the
objective; the analysis then looks into its body.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.model_files import find_model_files, find_model_weights
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig, Model
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.model.weights.training_checkpoints import (
    TENSORS,
    find_checkpoint,
    read_checkpoint_weights,
)
from transbeam.pipeline.records.manifest import sha256
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.base.warm_start import find_origin

CHECKPOINTS = "training/checkpoints"


@dataclass(frozen=True)
class AnalyzedModel:
    """A model with its tokenizer.

    Attributes:
        config: The configuration with which it was trained or imported.
        model: The model.
        tokenizer: Its tokenizer.
        fingerprint: SHA-256 of the file of the weights.
        has_head: False if the weights lack the head of the objective.
    """

    config: RunConfig
    model: keras.Model
    tokenizer: Tokenizer
    fingerprint: str
    has_head: bool


def load_analyzed_model(run_folder: Path, checkpoint: int | None) -> AnalyzedModel:
    """Loads the model of a run.

    Args:
        run_folder: The run's folder.
        checkpoint: The step of the checkpoint to load; None for the finished weights.

    Raises:
        ArtifactError: The run has no model, no tokenizer or no such checkpoint, or a
            file is damaged.
    """
    file = None
    if checkpoint is None:
        origin = find_origin(run_folder)
        config, weights = origin.config, origin.values()
        file, tokenizer = find_model_weights(run_folder), _tokenizer(run_folder, config)
    else:
        config = load_run(run_folder, with_model=True)
        path = find_checkpoint(run_folder / CHECKPOINTS, checkpoint)
        file, weights = path / TENSORS, read_checkpoint_weights(path)
        tokenizer = load_tokenizer(run_folder / "data/tokenizer")
    size = tokenizer.vocabulary_size
    model = _build(config, size)
    missing = load_matching_weights(model, weights, str(file))
    if missing:
        model = _build_body(config.model, size, config.seed)
        load_matching_weights(model, weights, str(file))
    return AnalyzedModel(config, model, tokenizer, sha256(file), not missing)


def _tokenizer(run_folder: Path, config: RunConfig) -> Tokenizer:
    folder = find_model_files(run_folder).tokenizer
    if folder is not None:
        return load_tokenizer(folder)
    if isinstance(config.objective, ImageObjective):
        return WordPieceTokenizer(SPECIAL_PIECES)  # reads nothing
    raise ArtifactError(
        f"{run_folder}: the model was imported without its tokenizer, and cannot read "
        "text. Put the tokenizer's files beside the weights and import again"
    )


def _build(config: RunConfig, vocabulary_size: int) -> keras.Model:
    return build_model(
        config.model,
        config.objective,
        vocabulary_size,
        segments=traits(config.objective).has_segments,
        dtype="float32",
        seed=config.seed,
    )


def _build_body(config: Model, vocabulary_size: int, seed: int) -> keras.Model:
    options: dict[str, Any] = {"dtype": "float32", "seed": seed}
    if isinstance(config, EncoderConfig):
        return build_encoder(config, vocabulary_size, **options)
    if isinstance(config, DecoderConfig):
        return build_decoder(config, vocabulary_size, **options)
    return build_seq2seq(config, vocabulary_size, **options)
