"""The Python code of the documents does what they say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.model.conftest import tensorflow_only
from tests.model.weights.hugging_face_checkpoints import CASES
from transbeam.configs.base.errors import ConfigError
from transbeam.model.build import build_model
from transbeam.model.weights.checkpoint_import import read_checkpoint

DOCUMENTS = Path(__file__).parents[2] / "docs"


def run_code(document: str) -> dict[str, Any]:
    text = (DOCUMENTS / document).read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_model() -> None:
    maps = run_code("model.md")["maps"]
    assert maps["encoder_layer_1/self_attention"].shape == (1, 4, 8, 8)


@tensorflow_only
@pytest.mark.thorough(instead="test_programs_in_documents_define_their_names")
def test_generation() -> None:
    texts = run_code("generation.md")["texts"]
    assert [1 <= len(text) <= 24 for text in texts] == [True] * 3


@pytest.mark.parametrize("case", ["bert", "bert_masked", "gpt2"])
def test_weights(tmp_path, monkeypatch, case) -> None:
    """A body alone, a model with its head, and one that always has one."""
    CASES[case].write(tmp_path / "bert-base-uncased")
    monkeypatch.chdir(tmp_path)
    run_code("weights.md")
    config = json.loads((tmp_path / "for-transformers/config.json").read_text())
    assert config["architectures"] == CASES[case].config["architectures"]


def test_a_body_alone_has_no_head_to_build(tmp_path) -> None:
    checkpoint = read_checkpoint(CASES["bert"].write(tmp_path))
    with pytest.raises(ConfigError, match="Build the body alone by build_encoder"):
        build_model(checkpoint.config, checkpoint.objective, 11)
