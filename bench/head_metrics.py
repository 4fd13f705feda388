"""Metrics of all attention heads: `transbeam analyze --part heads` against PyTorch.

    python -m bench.head_metrics CHECKPOINT CORPUS --peer PYTHON [--texts N]

`CHECKPOINT` is a BERT in transformers' files, `CORPUS` a text file, and `PYTHON` that
of an environment with torch and transformers. Both sides read the same token ids and
end with the same means, which are compared.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.answering import Answering
from bench.pairs import heading, row, spread
from transbeam.configs.cli.arguments import usable_cores

ROUNDS, LENGTH = 3, 128
WAYS = ("bare", "metrics")
# The columns of the peer's table, in its order.
METRICS = ("entropy", "entropy_share", "confidence", "confidence_without_end")
METRICS += ("sparsity", "distance", "distant", "first", "end_to_end")
METRICS += ("begin", "end", "special", "punctuation", "rare", "content")


def main() -> None:
    """Times both sides in turns, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--peer", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--texts", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(arguments.checkpoint, arguments.corpus, arguments.texts, folder)
        texts = folder / "texts.npz"
        ours = Answering(
            [sys.executable, "-m", "bench.head_metrics_worker", folder / "run", texts]
        )
        script = Path(__file__).parent / "peers" / "hf_head_metrics.py"
        theirs = Answering(
            [arguments.peer, script, arguments.checkpoint, texts, folder / "theirs.npy"]
        )
        sides = [(ours, way) for way in WAYS]
        sides += [(theirs, way) for way in (*WAYS, "kept")]
        taken = list(zip(*_measure(sides), strict=True))
        difference = _compare(folder)
    _print(taken, arguments.texts)
    print(f"\nLargest difference of a mean: {difference:.1e}; {usable_cores()} cores.")


def _measure(
    sides: list[tuple[Answering, str]],
) -> Iterator[list[tuple[float, float, float]]]:
    """Yields seconds, peak and growth in megabytes of each side, round by round."""
    for number in range(ROUNDS + 1):
        measured = []
        for process, way in sides:
            before = process.held()
            seconds, peak = process.seconds_and_peak(way)
            measured.append((seconds, peak, peak - before))
        if number:
            yield measured


def _prepare(checkpoint: Path, corpus: Path, texts: int, folder: Path) -> None:
    """Imports the checkpoint, and cuts the corpus into texts of equal length."""
    from transbeam import main as transbeam
    from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
    from transbeam.trainer.analysis.heads.token_classes import classify_pieces

    run = folder / "run"
    if transbeam(["import", str(checkpoint), "--run", str(run), "--quiet"]):
        raise SystemExit(f"{checkpoint}: cannot be imported")
    tokenizer = load_tokenizer(run / "imported" / "tokenizer")
    text = corpus.read_text("utf-8")[: texts * LENGTH * 8]
    lines = [line for line in text.splitlines() if line.strip()]
    pieces = np.concatenate([np.asarray(x) for x in tokenizer.tokenize(lines)])
    inner = LENGTH - 2
    if len(pieces) < texts * inner:
        raise SystemExit(
            f"{corpus}: has {len(pieces):,} tokens; {texts * inner:,} expected"
        )
    ids = np.empty((texts, LENGTH), np.int32)
    ids[:, 0], ids[:, -1] = tokenizer.special.begin, tokenizer.special.end
    ids[:, 1:-1] = pieces[: texts * inner].reshape(texts, inner)
    rows = [{"token_ids": row} for row in ids]
    np.savez(
        folder / "texts.npz", token_ids=ids, classes=classify_pieces(tokenizer, rows)
    )


def _compare(folder: Path) -> float:
    """Returns the largest difference of both sides' means."""
    theirs = np.load(folder / "theirs.npy")  # (L, H, M)
    ours = np.load(folder / "ours.npy")
    return float(np.abs(ours - theirs).max())


def _print(taken: list[tuple[tuple[float, float, float], ...]], texts: int) -> None:
    """Prints a row for each way.

    Args:
        taken: For each side, of each round, seconds, peak and growth in megabytes.
        texts: Number of texts.
    """
    names = ["ours, bare forward", "ours, metrics", "peer, bare forward"]
    names += ["peer, metrics of each batch", "peer, metrics of kept maps"]
    print(heading("way", "texts/s", "peak", "growth", "ours is faster"))
    for name, rounds, pair in zip(names, taken, (0, 1, 0, 1, 1), strict=True):
        ratios = [x[0] / y[0] for x, y in zip(rounds, taken[pair], strict=True)]
        print(
            row(
                name,
                spread([texts / x[0] for x in rounds], ".1f"),
                spread([x[1] for x in rounds], ",.0f", " MB"),
                spread([x[2] for x in rounds], ",.0f", " MB"),
                spread(ratios, ".2f", "x") if name.startswith("peer") else "",
            )
        )


if __name__ == "__main__":
    main()
