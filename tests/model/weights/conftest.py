"""Checkpoints on the disk, and the models made of them."""

from pathlib import Path

import keras
import pytest

from tests.model.weights.hugging_face_checkpoints import CASES
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder, build_decoder_body
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.assign import assign, variable_shapes
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint


@pytest.fixture(params=CASES)
def case(request) -> str:
    return request.param


@pytest.fixture
def folder(tmp_path: Path, case: str) -> Path:
    return CASES[case].write(tmp_path / case)


def built(checkpoint: Checkpoint, *, with_head: bool = True) -> keras.Model:
    """Our model of a checkpoint's description, with its weights."""
    config, vocabulary_size = checkpoint.config, checkpoint.vocabulary_size
    has_head = checkpoint.objective is not None and with_head
    if isinstance(config, DecoderConfig) and checkpoint.objective == CausalConfig():
        model = build_decoder(config, vocabulary_size)
    elif isinstance(config, DecoderConfig) and not has_head:
        model = build_decoder_body(config, vocabulary_size)
    elif isinstance(config, Seq2SeqModelConfig):
        model = build_seq2seq(config, vocabulary_size)
    elif has_head:
        model = build_model(config, checkpoint.objective, vocabulary_size)
    else:
        model = build_encoder(config, vocabulary_size)
    assign(model, checkpoint.weights(variable_shapes(model)))
    return model
