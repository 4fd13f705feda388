"""Small models with random weights, and texts of random words."""

from dataclasses import replace

import numpy as np

from tests.model.conftest import small_config
from tests.trainer.analysis.contexts import make_context
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

WORDS = ("the", "a", "model", "loss", "trains", "reads", "##s", "##loss", ".", "##.")
PIECES = (*SPECIAL_PIECES, *WORDS, *(f"w{number}" for number in range(60)))


def make_encoder_context(*lengths: int) -> AnalysisContext:
    """Makes the context of an encoder of two layers, with texts of some lengths."""
    model = small_config(hidden_dim=12, num_segments=0)
    context = make_context(model, pieces=PIECES)
    special, ordinary = context.tokenizer.special, context.tokenizer.ordinary_ids
    generator = np.random.default_rng(0)
    texts = [
        [special.begin, *generator.choice(ordinary, length), special.end]
        for length in lengths
    ]
    return with_texts(context, *texts)


def make_decoder_context(encoder: AnalysisContext) -> AnalysisContext:
    """Makes the context of a decoder of two layers with the same texts."""
    model = DecoderConfig(
        num_layers=2,
        hidden_dim=12,
        max_sequence_length=20,
        feedforward=DenseFeedForwardConfig(intermediate_dim=24),
    )
    return make_context(model, encoder.texts, pieces=PIECES)


def with_texts(context: AnalysisContext, *token_ids: list[int]) -> AnalysisContext:
    """Returns the context with other texts."""
    rows = tuple({"token_ids": np.array(ids, np.int32)} for ids in token_ids)
    return replace(context, texts=AnalyzedTexts("texts", rows))


def make_inputs(context: AnalysisContext, text: int) -> dict[str, np.ndarray]:
    """Makes the model's inputs of one text, without padding."""
    token_ids = context.texts.rows[text]["token_ids"][None]
    values = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}
    return {name: values[name] for name in context.model.input}
