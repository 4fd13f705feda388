"""Fixtures of a small corpus and the configuration of a run over it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run

SENTENCE = (
    "the model reads a batch of tokens and returns the loss of each layer while the "
    "optimizer updates every weight after the gradient is clipped to its norm"
)
WORDS = SENTENCE.split()

YAML = """
name: small
seed: 3
data:
  source: {kind: text, path: PATH}
  sequence_length: 32
  shard_megabytes: 0.004
  validation_fraction: 0.2
tokenizer: {kind: wordpiece, vocabulary_size: 120}
model:
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 32
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training:
  {steps: 4, batch_size: 4, schedule: {warmup_steps: 1}, evaluate_every: 2, samples: 0}
"""


def paragraphs(count: int) -> list[str]:
    """Different paragraphs of 3 to 40 words, the same on every call."""
    return [
        " ".join(WORDS[(i * 7 + j) % len(WORDS)] for j in range(3 + i % 38)) + f" {i}"
        for i in range(count)
    ]


def write_corpus(folder: Path) -> Path:
    """Three files of paragraphs, some 13 kB: several units."""
    folder.mkdir()
    for number in range(3):
        text = "\n\n".join(paragraphs(120)[number::3])
        (folder / f"part-{number}.txt").write_text(text, "utf-8")
    return folder


def invocations(root: Path, corpus: Path) -> Callable[..., Invocation]:
    """Makes the invocation of a run over the corpus, in a folder of the given name."""

    def make(folder: str = "run", *overrides: str, workers: int = 1, **how: Any):
        file = root / "small.yaml"
        file.write_text(YAML.replace("PATH", f"{corpus}/*.txt"), "utf-8")
        return Invocation(
            config=load_run(file, overrides),
            config_file=file,
            overrides=overrides,
            run_folder=root / folder,
            console=Console(quiet=True),
            workers=workers,
            **how,
        )

    return make


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")


@pytest.fixture
def invoke(tmp_path: Path, corpus: Path) -> Callable[..., Invocation]:
    return invocations(tmp_path, corpus)
