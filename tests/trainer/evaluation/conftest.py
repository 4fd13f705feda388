"""A small translator with its records, trained once for all tests of the evaluation."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.stages import copy_of, stage
from tests.small_run import WORDS
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.stage import data
from transbeam.trainer.run import train

YAML = """
name: translator
seed: 3
data:
  source: {kind: parallel, path: FOLDER/train.a, target_path: FOLDER/train.b}
  validation_source: {kind: parallel, path: FOLDER/dev.a, target_path: FOLDER/dev.b}
  sequence_length: 32
tokenizer: {kind: byte_bpe, vocabulary_size: 300, specials: roberta}
objective: {kind: seq2seq, decoder_length: 24, too_long: drop}
model:
  kind: seq2seq
  num_layers: 1
  hidden_dim: 16
  max_sequence_length: 32
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training: {steps: 2, batch_size: 4, schedule: {warmup_steps: 1}, samples: 0}
"""


def lines(count: int, first: int = 0) -> list[tuple[str, str]]:
    """Pairs of texts of 2 to 6 words, all different."""
    return [
        (
            " ".join(WORDS[(n * 5 + j) % len(WORDS)] for j in range(2 + n % 5)),
            f"{WORDS[n % len(WORDS)]} {n}",
        )
        for n in range(first, first + count)
    ]


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, texts in zip("ab", zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("\n".join(texts) + "\n", "utf-8")


def invocation(translator: Path, run_folder: Path, *overrides: str) -> Invocation:
    """A command on the translator, or on a copy of its run."""
    file = translator / "run.yaml"
    return Invocation(
        config=load_run(file, overrides),
        config_file=file,
        overrides=overrides,
        run_folder=run_folder,
        console=Console(quiet=True),
        workers=1,
    )


def make_translator(folder: Path) -> None:
    for name, first, count in (("train", 0, 120), ("dev", 200, 20), ("test", 300, 9)):
        write_pairs(folder, name, lines(count, first))
    (folder / "run.yaml").write_text(YAML.replace("FOLDER", str(folder)), "utf-8")
    run = invocation(folder, folder / "run")
    data(run)
    train(run)


@pytest.fixture
def translator(tmp_path: Path) -> Callable[..., Invocation]:
    """Makes invocations of a run that is trained, with keys replaced."""
    made = stage("translator", make_translator)
    folder = copy_of(made / "run", tmp_path / "translator")

    def make(*overrides: str) -> Invocation:
        return invocation(made, folder, *overrides)

    return make


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
