"""A training step on real text of mixed lengths: ours packed, the peer's padded.

    python -m bench.real_text CONFIG --torch-python PATH [--run DIR] [--set KEY=VALUE]

`transbeam data CONFIG` has made the records, of kind causal or seq2seq; `PATH` is the
Python of an environment with torch and transformers. Each round takes a batch as our
trainer reads it. The peer gets the same documents, each in a row of its own, padded to
the longest of the batch, as its library's collator does. Both take one step of AdamW
with clipping, on models of the same sizes, dropout and label smoothing. What counts are
real tokens, of both sides of a pair.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bench.answering import Answering
from bench.pairs import Pair, heading
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.input.batches import training_batches
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import build_schedule
from transbeam.trainer.step.batch import tokens_in
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

PEER = Path(__file__).parent / "peers" / "hf_real_text.py"
Batch = Mapping[str, np.ndarray]


def main() -> None:
    """Prints a table with one row."""
    parser = argparse.ArgumentParser(prog="bench.real_text", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--torch-python", type=Path, required=True)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    run = load_run(arguments.config, arguments.set, with_model=True)
    folder = (arguments.run or Path("runs") / run.name) / "data"
    ours, size = our_step(run, folder)
    peer = Answering([arguments.torch_python, PEER, *sizes_of(run, size)])
    seconds: tuple[list[float], list[float]] = [], []
    tokens, cells = [], []
    print(heading("work", "ours", "peer", "ratio"))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "documents.npz"
        for number, batch in enumerate(batches_of(run, folder, arguments.rounds + 2)):
            cells.append(write_documents(batch, path))
            both = ours(batch), peer.seconds(path)
            if number < 2:  # the first traces
                continue
            for found, one in zip(seconds, both, strict=True):
                found.append(one)
            tokens.append(float(tokens_in(batch)))
    title = f"{run.objective.kind}, {run.name}, {np.mean(tokens):,.0f} tokens a step"
    pair = Pair(title, "Hugging Face", *seconds, float(np.mean(tokens)), "tokens")
    print(pair.as_row())
    real = np.sum(tokens) / np.sum(cells[2:])
    print(f"of the peer's places, {real:.0%} hold a token")


def our_step(run: RunConfig, folder: Path):
    """Our update as a run has it, timed; and how many pieces there are."""
    size = read_manifest(folder).vocabulary["size"]
    model = build_trainable(run, size)
    schedule = build_schedule(
        run.training.schedule, run.training.steps, run.model.hidden_dim
    )
    optimizer = build_optimizer(
        run.training.optimizer, schedule, model.trainable_variables
    )
    update = build_step(
        TrainState(model, optimizer, run.training), make_loss(run), run.training
    )

    def step(batch: Batch) -> float:
        tensors = keras.tree.map_structure(tf.constant, dict(batch))
        began = time.perf_counter()
        np.asarray(update(tensors)["loss"])
        return time.perf_counter() - began

    return step, size


def batches_of(run: RunConfig, folder: Path, number: int) -> Iterator[Batch]:
    """Batches as the trainer reads them."""
    batches = training_batches(
        read_manifest(folder),
        batch_size=run.training.batch_size,
        shuffle_records=run.training.shuffle_records,
        seed=run.seed,
    )
    return islice(batches.as_numpy_iterator(), number)


def write_documents(batch: Batch, path: Path) -> int:
    """Writes the documents of a batch, one after another, with their lengths.

    Returns:
        The places that they have when each is padded to the longest, on both sides.
    """
    arrays: dict[str, np.ndarray] = {}
    cells = 0
    for name in batch:
        if not name.endswith("document_ids"):
            continue
        side = name.removesuffix("document_ids")
        documents = batch[name]
        rows, places = np.nonzero(documents)
        # Documents of a row are numbered, and lie one after another.
        number = rows * (documents.max() + 1) + documents[rows, places]
        _, lengths = np.unique(number, return_counts=True)
        arrays[f"{side}lengths"] = lengths
        arrays[f"{side}ids"] = batch[f"{side}token_ids"][rows, places]
        if side != "encoder_":
            arrays["targets"] = batch["target_ids"][rows, places]
            arrays["weights"] = batch["target_weights"][rows, places]
        cells += len(lengths) * int(lengths.max())
    np.savez(path, **arrays)
    return cells


def sizes_of(run: RunConfig, vocabulary_size: int) -> list[object]:
    """Arguments of the peer's command line."""
    model = run.model
    if not isinstance(model, DecoderConfig | Seq2SeqModelConfig):
        raise SystemExit(f"{run.name}: expected a decoder or seq2seq model")
    return [
        run.objective.kind,
        model.num_layers,
        model.hidden_dim,
        model.attention.num_heads,
        model.feedforward.intermediate_dim,
        model.max_sequence_length,
        vocabulary_size,
        model.dropout,
        run.training.label_smoothing,
        "bfloat16" if run.training.precision == "mixed_bfloat16" else "float32",
    ]


if __name__ == "__main__":
    main()
