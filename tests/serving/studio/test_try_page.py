"""The page Try in Chromium: `make test-studio`. The checks are in `try_checks.py`."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serving.conftest import TINY, exported_run, make_run
from tests.serving.server.conftest import running, settings_for
from tests.serving.studio.test_page import CHROMIUM, CONFIGS, PYTHON
from tests.serving.studio.test_page import pytestmark as pytestmark
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    MultiLabelClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.tokenizer import WordPieceConfig

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
PAIRS = replace(TINY.model, num_segments=2)
# Runs of every form of answer that is no text; what is written has runs of its own.
FORMS = {
    "classification": {"objective": ClassificationConfig(labels=("no", "yes"))},
    "multi_label": {
        "objective": MultiLabelClassificationConfig(labels=("a", "b", "c"))
    },
    "pair_classification": {
        "objective": PairClassificationConfig(labels=("no", "yes")),
        "model": PAIRS,
    },
    "regression": {"objective": RegressionConfig()},
    "pair_regression": {"objective": PairRegressionConfig(), "model": PAIRS},
    "token_classification": {"objective": TokenClassificationConfig(labels=TAGS)},
    "span_qa": {
        "objective": SpanQAConfig(stride=7, max_question_length=8),
        "model": PAIRS,
    },
    "span_corruption": {
        "objective": SpanCorruptionConfig(decoder_length=12),
        "tokenizer": WordPieceConfig(vocabulary_size=160, num_sentinels=12),
        "model": Seq2SeqModelConfig(
            num_layers=1,
            hidden_dim=32,
            max_sequence_length=TINY.model.max_sequence_length,
            attention=FullAttentionConfig(num_heads=2),
        ),
    },
}

SCRIPT = Path(__file__).parent / "try_checks.py"
CHECKS = [
    node.name.removeprefix("check_")
    for node in ast.parse(SCRIPT.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = [make_run(tmp_path_factory.mktemp("runs") / "without", TINY)]
    made.append(exported_run(TINY).run_folder)
    for name in ("causal", "seq2seq"):
        # The text that tokenizers are trained on here has few words.
        config = load_run(CONFIGS / f"{name}.yaml", ["tokenizer.vocabulary_size=300"])
        export = replace(config.export, tflite=())
        config = replace(config, training=TINY.training, export=export)
        made.append(exported_run(config, optimized=False).run_folder)
    for name, keys in FORMS.items():
        export = replace(TINY.export, examples=(), tflite=())
        config = replace(TINY, name=name, export=export, **keys)
        made.append(exported_run(config, optimized=False).run_folder)
    return tuple(made)


@pytest.fixture(scope="module")
def page(runs):
    settings = settings_for(
        port=None, has_studio=True, studio_runs=runs, studio_loads=True
    )
    with running(settings) as client:
        yield f"{client.addresses.rest}/studio/"


@pytest.mark.parametrize("name", CHECKS)
def test_page(page, name):
    done = subprocess.run(
        [str(PYTHON), str(SCRIPT), str(CHROMIUM), page, name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRANSBEAM_CLIENT_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
