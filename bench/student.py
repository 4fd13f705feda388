"""Speed of a student relative to its teacher.

    python -m bench.student STUDENT TEACHER [--rounds 7] [--batch 1 32]

Both are folders of finished runs. A round is the student's validation split from end
to end, in its lengths, by the models as an export has them (float32, a graph for each
shape); they run in turns. Reading the records is not counted.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bench.pairs import Pair, heading, in_turns
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.input.batches import validation_batches

Batch = Mapping[str, Any]


def main() -> None:
    """Prints a table: a row for each size of a batch."""
    parser = argparse.ArgumentParser(prog="bench.student", description=__doc__)
    parser.add_argument("student", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    arguments = parser.parse_args()
    ours, theirs = map(answering, (arguments.student, arguments.teacher))
    manifest = read_manifest(arguments.student / "data")
    print(heading("work", "student", "teacher", "ratio"))
    for size in arguments.batch:
        read: Any = validation_batches(manifest, size)
        batches = list(read.as_numpy_iterator())
        records = sum(len(next(iter(batch.values()))) for batch in batches)
        seconds = in_turns(
            lambda batches=batches: ours(batches),
            lambda batches=batches: theirs(batches),
            arguments.rounds,
        )
        title = f"{arguments.student.name}, batches of {size}"
        pair = Pair(title, arguments.teacher.name, *seconds, records, "texts")
        print(pair.as_row(), flush=True)


def answering(run: Path) -> Callable[[Sequence[Batch]], None]:
    """A run's model, asked about batches."""
    model = load_trained(run).model
    forward = tf.function(lambda features: model(features, training=False))

    def answer(batches: Sequence[Batch]) -> None:
        for batch in batches:
            mask = batch["document_ids"] > 0
            given = {**batch, "padding_mask": mask.astype("int32")}
            outputs = forward({name: tf.constant(given[name]) for name in model.input})
            np.asarray(next(iter(outputs.values())))

    return answer


if __name__ == "__main__":
    main()
