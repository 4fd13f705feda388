"""The trainer's input alone: records read, stirred, parsed, and masked.

    python -m bench.input [--packages NAME ...] [--batch-size N] [--rounds N]

Records of 128 tokens are made of the docstrings of installed packages in a temporary
folder. Each round reads an epoch from its beginning. Padding does not count as tokens.
The seconds of both cores are counted too: what input takes, a training step on the
same cores has not. `entering` is how long the first batch takes in the middle of an
epoch, beside the very first.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import yaml

from bench.corpus import DataJob
from bench.pairs import heading, row, spread
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.input.batches import training_batches
from transbeam.trainer.input.dynamic_masking import dynamic_masking

LENGTH = 128
WORDPIECE = {"kind": "wordpiece", "vocabulary_size": 8192}
BYTE_BPE = {"kind": "byte_bpe", "vocabulary_size": 8192}
DYNAMIC = {"kind": "masked", "masking": "dynamic"}
WORKS: Mapping[str, Mapping[str, Any]] = {
    "causal, packed": {"tokenizer": BYTE_BPE, "objective": {"kind": "causal"}},
    "causal, buckets of 32, 64, 128": {
        "tokenizer": BYTE_BPE,
        "objective": {"kind": "causal"},
        "layout": {"kind": "bucketed", "lengths": [32, 64, LENGTH]},
    },
    "masked, static": {"tokenizer": WORDPIECE, "objective": {"kind": "masked"}},
    "masked, dynamic": {"tokenizer": WORDPIECE, "objective": DYNAMIC},
    "masked, dynamic, whole words": {
        "tokenizer": WORDPIECE,
        "objective": {**DYNAMIC, "whole_words": True},
    },
    "masked, dynamic, 3 words": {
        "tokenizer": WORDPIECE,
        "objective": {**DYNAMIC, "whole_words": True, "ngram": 3},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.input", description=__doc__)
    parser.add_argument("--packages", nargs="+", default=["numpy", "tensorflow"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    columns = ("work", "records/s", "tokens/s", "tokens/core second", "entering")
    print(heading(*columns))
    for name, work in WORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            made = _records(Path(folder), work, arguments.packages)
            measured = Epochs(made, arguments.batch_size, arguments.rounds)
            print(measured.as_row(name), flush=True)


def _records(folder: Path, work: Mapping[str, Any], packages: list[str]) -> DataJob:
    data = {
        "source": {"kind": "python_docs", "packages": packages},
        "sequence_length": LENGTH,
        "layout": work.get("layout", {"kind": "packed"}),
    }
    given = {"tokenizer": work["tokenizer"], "objective": work["objective"]}
    file = folder / "input.yaml"
    file.write_text(yaml.safe_dump({"name": "input", "data": data, **given}))
    job = DataJob(file, folder / "run")
    job()
    return job


@dataclass(frozen=True)
class Round:
    """Wall and CPU seconds of one epoch, from the first batch on."""

    records: int
    tokens: int
    wall: float
    cores: float


class Epochs:
    """Rounds over the records of a job, after one to warm up."""

    def __init__(self, job: DataJob, batch_size: int, rounds: int) -> None:
        self.folder = job.run / "data"
        self.manifest = read_manifest(self.folder)
        self.masking = dynamic_masking(load_run(job.config), self.folder)
        self.batch_size = batch_size
        self.rounds = [self._round(seed) for seed in range(rounds + 1)][1:]
        middle = self.batches // 2
        self.entering = [
            (self._first(seed, 0), self._first(seed, middle)) for seed in range(rounds)
        ]

    def as_row(self, name: str) -> str:
        """A row of the table."""
        rounds = self.rounds
        start, middle = zip(*self.entering, strict=True)
        return row(
            name,
            spread([one.records / one.wall for one in rounds], ",.0f"),
            spread([one.tokens / one.wall for one in rounds], ",.0f"),
            spread([one.tokens / one.cores for one in rounds], ",.0f"),
            f"{spread(middle, '.2f', ' s')}, start {spread(start, '.2f', ' s')}",
        )

    @property
    def batches(self) -> int:
        """About an epoch."""
        cells = sum(
            shard.records * shard.sequence_length
            for shard in self.manifest.split("train")
        )
        return math.ceil(cells / LENGTH / self.batch_size)

    def _dataset(self, seed: int, batches_read: int = 0) -> tf.data.Dataset:
        return training_batches(
            self.manifest,
            batch_size=self.batch_size,
            shuffle_records=4096,
            seed=seed,
            batches_read=batches_read,
            masking=self.masking,
        )

    def _round(self, seed: int) -> Round:
        batches = iter(self._dataset(seed))
        next(batches)
        wall, cores = time.perf_counter(), time.process_time()
        read = [next(batches)["document_ids"] for _ in range(self.batches)]
        wall, cores = time.perf_counter() - wall, time.process_time() - cores
        return Round(
            sum(len(ids) for ids in read),
            sum(int(tf.math.count_nonzero(ids)) for ids in read),
            wall,
            cores,
        )

    def _first(self, seed: int, batches_read: int) -> float:
        began = time.perf_counter()
        next(iter(self._dataset(seed, batches_read)))
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
