"""Analyses of small models with random weights, on words that have pieces."""

from pathlib import Path

import keras
import numpy as np

from tests.model.conftest import small_config
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig, Model
from transbeam.configs.schema.run import RunConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

WORDS = ("she", "saw", "the", "old", "dog", "##s", "no", "##w", ".")
PIECES = (*SPECIAL_PIECES, *WORDS)
_RUN = """\
name: small
data: {source: {kind: text, path: none}, sequence_length: 16}
training: {steps: 1, batch_size: 1}
"""


def make_config(model: Model) -> RunConfig:
    """Makes the configuration of a run with a model, whatever its objective."""
    config = parse_run(_RUN, "small.yaml")
    object.__setattr__(config, "model", model)
    return config


def make_context(
    model: Model | None = None,
    texts: AnalyzedTexts | None = None,
    pieces: tuple[str, ...] = PIECES,
    max_tokens: int = 64,
) -> AnalysisContext:
    """Makes an analysis of a model with random weights; by default of two layers."""
    model = model or small_config(hidden_dim=12, num_segments=0)
    build = build_seq2seq
    if isinstance(model, EncoderConfig):
        build = build_encoder
    elif isinstance(model, DecoderConfig):
        build = build_decoder
    network = build(model, len(pieces))
    generator = np.random.default_rng(7)
    for weight in network.weights:
        weight.assign(generator.normal(0, 0.7, weight.shape))
    return AnalysisContext(
        config=make_config(model),
        model=network,
        tokenizer=WordPieceTokenizer(pieces),
        texts=texts or AnalyzedTexts("none", ()),
        console=Console(quiet=True),
        seed=0,
        run_folder=Path("none"),
        max_tokens=max_tokens,
    )


def numpy_maps(model: keras.Model, row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The probabilities of one text, without padding: (H, T, S) by layer."""
    from transbeam.model.inspect.attention_maps import attention_probabilities

    inputs = {name: value[None] for name, value in row.items()}
    for name in [name for name in inputs if name.endswith("token_ids")]:
        mask = np.ones_like(inputs[name])
        inputs[name.replace("token_ids", "padding_mask")] = mask
    maps = attention_probabilities(model, inputs)
    return {path: np.asarray(one)[0] for path, one in maps.items()}
