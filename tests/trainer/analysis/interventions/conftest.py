"""The small run with two layers of four heads, and random weights."""

import numpy as np
import pytest

from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.build import build_model
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)

LAYERS, HEADS = 2, 4
SMALL = (f"model.attention.num_heads={HEADS}", f"model.num_layers={LAYERS}")


@pytest.fixture(scope="module")
def masked(small_data) -> AnalysisContext:
    config = load_run(small_data / "small.yaml", SMALL)
    model = build_model(config.model, config.objective, 120, dtype="float32")
    generator = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign(weight + generator.normal(0.0, 0.3, weight.shape))
    return AnalysisContext(
        config=config,
        model=model,
        tokenizer=load_tokenizer(small_data / "run/data/tokenizer"),
        texts=AnalyzedTexts("validation", ()),
        console=Console(quiet=True),
        seed=1,
        run_folder=small_data / "run",
    )
