"""Contexts of an analysis: small models with random weights, and random texts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from tests.model.conftest import VOCABULARY_SIZE
from transbeam.configs.cli.console import Console
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

MASK, END = 4, 3


class NumberedTokenizer:
    """A tokenizer whose pieces are numbers; the first five ids are special."""

    pieces = tuple(f"<{index}>" for index in range(VOCABULARY_SIZE))
    special = SpecialIds(pad=0, unknown=1, begin=2, end=END, mask=MASK)
    ordinary_ids = np.arange(5, VOCABULARY_SIZE)
    vocabulary_size = VOCABULARY_SIZE


def make_context(
    model: keras.Model, texts: int = 6, *, names: tuple[str, ...] = ("token_ids",)
) -> AnalysisContext:
    """Makes a context with texts of 3 to 8 tokens, the last of which ends the text.

    Args:
        model: A model that reads up to 8 tokens.
        texts: The number of texts.
        names: Names of the texts' features.
    """
    generator = np.random.default_rng(1)
    rows = []
    for number in range(texts):
        shape = (3 + number % 6,)
        row = {name: generator.integers(5, VOCABULARY_SIZE, shape) for name in names}
        for ids in row.values():
            ids[-1] = END
        rows.append({name: ids.astype("int32") for name, ids in row.items()})
    config: Any = SimpleNamespace(model=SimpleNamespace(max_sequence_length=8))
    tokenizer: Any = NumberedTokenizer()
    return AnalysisContext(
        config=config,
        model=model,
        tokenizer=tokenizer,
        texts=AnalyzedTexts("validation", tuple(rows)),
        console=Console(quiet=True),
        seed=0,
        run_folder=Path(),
    )
