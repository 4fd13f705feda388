"""Induction heads in a small GPT: when they appear, on texts that repeat themselves.

    python -m bench.induction [--steps N] [--every N] [--picture FILE]

Each text is a few random words, repeated until the text is full: the first copy cannot
be predicted, and all others only by looking back (Olsson et al., 2022). Decoders of one
and of two layers are trained on the same records. Of every checkpoint, `transbeam
analyze` measures the heads on random tokens of the corpus that are repeated; the table
has the best head of each.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from bench.pairs import heading, row
from transbeam import main as transbeam

DOCUMENTS, WORDS, LENGTH = 20_000, 100, 100
CONFIG = """\
name: induction
seed: 17
data:
  source: {{kind: text, path: "{corpus}", document: line}}
  sequence_length: 101
tokenizer: {{kind: byte_bpe, vocabulary_size: 450}}
objective: {{kind: causal}}
model:
  kind: decoder
  num_layers: {layers}
  hidden_dim: 128
  max_sequence_length: 128
  dropout: 0.0
  position: {{kind: rope}}
  attention: {{kind: full, num_heads: 4, dropout: 0.0}}
  norm: {{kind: layer_norm, placement: pre}}
  feedforward: {{kind: dense, intermediate_dim: 256}}
training:
  steps: {steps}
  batch_size: 32
  evaluate_every: {every}
  keep_checkpoints: 1000
  schedule: {{kind: cosine, peak: 2e-3}}
"""


def main() -> None:
    """Trains both decoders, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_corpus(folder / "corpus.txt")
        found = [_train(folder, layers, given.steps, given.every) for layers in (1, 2)]
    print(
        heading(
            "step",
            *(
                f"{text}, {layers}"
                for layers in ("1 layer", "2 layers")
                for text in ("validation loss", "previous token", "induction")
            ),
        )
    )
    for step in found[0]:
        cells = [f"{value:.3f}" for rows in found for value in rows[step]]
        print(row(f"{step:,}", *cells))
    if given.picture:
        _draw(found, given.picture)


def _write_corpus(file: Path) -> None:
    """Writes texts of 4 to 30 random words, repeated."""
    drawn = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: list[str] = []
    while len(words) < WORDS:
        word = "".join(drawn.choices(syllables, k=2))
        if word not in words:
            words.append(word)
    lines = []
    for _ in range(DOCUMENTS):
        copy = drawn.choices(words, k=drawn.randint(4, 30))
        lines.append(" ".join((copy * LENGTH)[: LENGTH - 1]))
    file.write_text("\n".join(lines) + "\n", "utf-8")


def _train(
    folder: Path, layers: int, steps: int, every: int
) -> dict[int, tuple[float, float, float]]:
    """Trains a decoder, and returns loss and best scores by step."""
    config, run = folder / f"{layers}.yaml", folder / f"layers-{layers}"
    config.write_text(
        CONFIG.format(
            corpus=folder / "corpus.txt", layers=layers, steps=steps, every=every
        )
    )
    for stage in ("data", "train"):
        _run(stage, str(config), "--run", str(run), "--quiet")
    log = (run / "training/metrics.jsonl").read_text("utf-8").splitlines()
    losses = {
        line["step"]: line["val_loss"]
        for line in map(json.loads, log)
        if "val_loss" in line
    }
    found = {}
    for step in sorted(losses):
        words = ["--part", "heads", "--max-texts", "100", "--checkpoint", str(step)]
        _run("analyze", str(run), *words, "--quiet")
        table = pq.read_table(run / "analysis/heads_metrics.parquet").to_pylist()
        best = [
            max(line["mean"] for line in table if line["metric"] == metric)
            for metric in ("previous_token", "induction")
        ]
        found[step] = (losses[step], best[0], best[1])
    return found


def _run(*words: str) -> None:
    if code := transbeam(list(words)):
        raise SystemExit(f"transbeam {words[0]}: ended with {code}")


def _draw(found: list[dict[int, tuple[float, float, float]]], file: Path) -> None:
    """Draws losses and scores of both decoders."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    losses, scores = figure.subplots(1, 2)
    for layers, rows in enumerate(found, 1):
        steps, values = list(rows), list(zip(*rows.values(), strict=True))
        name, color = f"{layers} layer{'s' * (layers > 1)}", f"C{layers - 1}"
        losses.plot(steps, values[0], color=color, label=name)
        scores.plot(steps, values[2], color=color, label=f"induction, {name}")
        scores.plot(
            steps, values[1], color=color, ls=":", label=f"previous token, {name}"
        )
    losses.set(xlabel="step", ylabel="validation loss in nats")
    scores.set(xlabel="step", ylabel="weight of the best head", ylim=(0, 1))
    for axes in (losses, scores):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(file)


if __name__ == "__main__":
    main()
