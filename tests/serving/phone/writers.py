"""Models that write, tiny and untrained, as TFLite files; and what Keras says."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from configs.load import load_run
from configs.run import RunConfig
from serving.forms import PhoneModel
from serving.phone_writing import PhoneWriter
from serving.tflite import write_tflite
from serving.trained import TOKENIZER, Trained
from tests.serving.tasks.writers import logits_of
from tests.serving.untrained import TINY, learned, untrained_of

SLOTS = 20
SIZES = (4, 7)  # so that the last piece may reach over the end of the cache


def small(name: str, *, tflite=("float32",), **model) -> RunConfig:
    """A tiny configuration with a short cache, and other keys of the model."""
    run = load_run(TINY / f"{name}.yaml", with_model=True)
    export = replace(
        run.export, tflite=tflite, tflite_cache=SLOTS, tflite_prefill=SIZES
    )
    return replace(run, model=replace(run.model, **model), export=export)


def converted(config: RunConfig, folder: Path) -> tuple[Trained, dict[str, Path]]:
    """An untrained model and its TFLite files.

    Args:
        config: Of the run.
        folder: For the files and, in the folder above, tokenizers.
    """
    trained = untrained_of(config, folder.parent)
    run = folder.parent / f"{folder.name}-run"
    tokenizer = learned(folder.parent, config.tokenizer)
    shutil.copytree(tokenizer, run / TOKENIZER, dirs_exist_ok=True)
    return trained, write_tflite(trained, run, folder)


def writer_of(file: Path, *, delegate: bool = True) -> PhoneWriter:
    return PhoneWriter(PhoneModel(file, delegate=delegate))


def some_ids(trained: Trained, number: int, seed: int = 0) -> list[int]:
    chance = np.random.default_rng(seed)
    ordinary = trained.tokenizer.ordinary_ids
    return chance.choice(ordinary, number).tolist()


def keras_logits(
    trained: Trained, row: list[int], source: list[int] | None = None, given: int = 0
) -> np.ndarray:
    """Keras's of a whole row, `given` tokens of which are a prefix: float64 (T, V)."""
    if source is not None:
        ids = {"encoder_token_ids": source, "decoder_token_ids": row}
        return logits_of(trained.model, **ids)
    if trained.config.objective.kind != "prefix":
        return logits_of(trained.model, token_ids=row)
    inputs = {
        "token_ids": row,
        "padding_mask": [1] * len(row),
        "prefix_mask": [int(place < given) for place in range(len(row))],
    }
    arrays = {name: np.array([of], np.int32) for name, of in inputs.items()}
    return np.asarray(trained.model(arrays, training=False)["logits"], np.float64)[0]
