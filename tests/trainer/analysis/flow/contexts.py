"""Contexts of analyses, with small models and a small vocabulary."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import keras
import numpy as np

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

TOKENIZER = WordPieceTokenizer((*SPECIAL_PIECES, *"abcdefghij", "$"))


def small_context(
    model: keras.Model,
    config: Any,
    rows: tuple[dict[str, np.ndarray], ...],
    labels: tuple[str, ...] = (),
) -> AnalysisContext:
    """Makes a context of a model, of which only `model` and the labels are read."""
    run = SimpleNamespace(model=config, objective=SimpleNamespace(labels=labels))
    return AnalysisContext(
        config=cast(RunConfig, run),
        model=model,
        tokenizer=TOKENIZER,
        texts=AnalyzedTexts("validation", rows),
        console=Console(quiet=True),
        seed=0,
        run_folder=Path(),
    )
