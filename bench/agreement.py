"""Do two exports of a classifier say the same labels?

    python -m bench.agreement SAVED_MODEL SAVED_MODEL TEXTS.csv...

The files have the columns `text` and `label`; a SavedModel is a version's folder, such
as one in float32 and one in bfloat16.
"""

import argparse
import csv
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

from bench.pairs import heading, row  # noqa: E402

BATCH = 64


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(prog="bench.agreement", description=__doc__)
    parser.add_argument("models", nargs=2, type=Path)
    parser.add_argument("texts", nargs="+", type=Path)
    arguments = parser.parse_args()
    rows = []
    for file in arguments.texts:
        with file.open(encoding="utf-8", newline="") as stream:
            rows += csv.DictReader(stream)
    texts = [row["text"] for row in rows]
    truth = np.array([row["label"].encode() for row in rows], object)
    (first, likely), (second, also) = [ask(path, texts) for path in arguments.models]
    found = f"{np.mean(first == truth):.1%}, {np.mean(second == truth):.1%}"
    print(heading("texts", "accuracy", "same label", "scores differ by"))
    same = f"{np.mean(first == second):.2%}"
    print(row(f"{len(texts):,}", found, same, f"{np.abs(likely - also).max():.3f}"))


def ask(folder: Path, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores of texts."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    answers = [
        signature(text=tf.constant(texts[start : start + BATCH]))
        for start in range(0, len(texts), BATCH)
    ]
    labels, scores = (
        np.concatenate([answer[name].numpy() for answer in answers])
        for name in ("label", "scores")
    )
    return labels, scores


if __name__ == "__main__":
    main()
