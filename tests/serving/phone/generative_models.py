"""Models that write, tiny and untrained, as TFLite files; and what Keras says."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.harness.stages import stage
from tests.serving.signatures.generation_reference import logits_of
from tests.serving.untrained import SPREAD, TINY, learned
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun, build
from transbeam.serving.phone.conversion.tflite_converter import file_name, write_tflite
from transbeam.serving.runtimes.tflite_generator import PhoneWriter

SLOTS = 20
SIZES = (4, 7)  # so that the last piece may reach over the end of the cache
VARIANTS = ("float32", "dynamic_int8")
# Those that tests in more than one file start from.
GPT2 = {"name": "gpt2_small", "tflite": VARIANTS}
T5 = {"name": "t5_small", "tflite": VARIANTS}
PREFIX = {"name": "prefix", "tflite": VARIANTS, "num_layers": 1}


def small(name: str, *, tflite=("float32",), **model) -> RunConfig:
    """A tiny configuration with a short cache, and other keys of the model."""
    run = load_run(TINY / f"{name}.yaml", with_model=True)
    export = replace(
        run.export, tflite=tflite, tflite_cache=SLOTS, tflite_prefill=SIZES
    )
    return replace(run, model=replace(run.model, **model), export=export)


def converted(config: RunConfig, folder: Path) -> tuple[TrainedRun, dict[str, Path]]:
    """An untrained model and its TFLite files.

    Args:
        config: Of the run.
        folder: For the files and, in the folder above, tokenizers.
    """
    run = folder.parent / f"{folder.name}-run"
    tokenizer = learned(folder.parent, config.tokenizer)
    shutil.copytree(tokenizer, run / TOKENIZER, dirs_exist_ok=True)
    trained = trained_of(config, run)
    return trained, write_tflite(trained, run, folder)


def shared(
    name: str, *, tflite=("float32",), **model
) -> tuple[TrainedRun, dict[str, Path]]:
    """The same of `small`, from a stage."""
    config = small(name, tflite=tflite, **model)

    def make(folder: Path) -> None:
        converted(config, folder / "tflite")

    number = hashlib.sha256(repr(config).encode()).hexdigest()[:8]
    folder = stage(f"phone-{name}-{number}", make)
    files = {each: folder / "tflite" / file_name(each) for each in tflite}
    return trained_of(config, folder / "tflite-run"), files


def trained_of(config: RunConfig, run: Path) -> TrainedRun:
    """An untrained model, the same each time, of a run's folder with a tokenizer."""
    tokenizer = load_tokenizer(run / TOKENIZER)
    model = build(config, tokenizer.vocabulary_size)
    chance = np.random.default_rng(0)
    for weight in model.weights:  # biases are not 0 after a training, nor scales 1
        weight.assign(weight + SPREAD * chance.standard_normal(weight.shape))
    return TrainedRun(config, tokenizer, model)


def writer_of(file: Path, *, delegate: bool = True) -> PhoneWriter:
    return PhoneWriter(TFLiteRunner(file, delegate=delegate))


def some_ids(trained: TrainedRun, number: int, seed: int = 0) -> list[int]:
    chance = np.random.default_rng(seed)
    ordinary = trained.tokenizer.ordinary_ids
    return chance.choice(ordinary, number).tolist()


def keras_logits(
    trained: TrainedRun, row: list[int], source: list[int] | None = None, given: int = 0
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
