"""`transbeam import`: a run's folder out of a checkpoint that others trained.

    RUN/run.yaml                       the configuration; data.source is nowhere yet
    RUN/imported/stage.json            where the weights are from, with checksums
    RUN/imported/weights.safetensors   where training begins (training.initial_weights)
    RUN/imported/tokenizer             the tokenizer (tokenizer.path)
    RUN/data, RUN/training             finished stages, for `transbeam export`: without
                                       records, and with the weights as they came

The two stages are there only if nothing of the model is missing, neither its head nor
its tokenizer, and it is of a kind that can be exported; or if it is a body that gives
vectors of texts. `transbeam data` and `transbeam train` put their own in their place.
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.compatibility import WITH_SEGMENTS
from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
    training_stage,
)
from transbeam.configs.loader.run_folder import Stage, fingerprint, lock, save_config
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.weight_paths import is_head
from transbeam.model.build import build_model
from transbeam.model.weights.assign import assign, shapes_of, variables_of
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.pipeline.stage import data_inputs, data_stage
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    TokenizerModel,
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.trainer.base.training_stage import HAS_HEAD, training_inputs
from transbeam.trainer.base.weight_files import save_weights
from transbeam.trainer.importing.checkpoint_files import (
    ImportedFiles,
    checksums,
    read_files,
)
from transbeam.trainer.importing.next_steps import is_ready, next_step
from transbeam.trainer.importing.run_config import config_of_checkpoint, name_of

RUN_FILE = "run.yaml"

# Raised when more of a checkpoint is read: the same files are then imported anew.
_READING = 3

# Kinds of objectives whose models read one text behind another.
_OF_TWO_TEXTS = ("pair_classification", "pair_regression", "span_qa")

# Images have no words; the data job of such a run makes the same.
_WORDLESS = WordPieceModel(pieces=SPECIAL_PIECES, lowercase=True, strip_accents=True)


def import_run(
    folder: Path, run_folder: Path | None, overrides: Sequence[str], console: Console
) -> dict[str, Any]:
    """Makes a run's folder out of a checkpoint, or finds it made.

    Args:
        folder: What `transbeam.model.weights.checkpoint_import.read_checkpoint` reads,
            with the files of the tokenizer.
        run_folder: The run's folder; `runs/` and the name of `folder` if left out.
        overrides: `KEY=VALUE`, for `run.yaml`.
        console: Hears what is done.

    Returns:
        The stage's result: where the weights are from, and what is new or left out.

    Raises:
        UserError: The checkpoint cannot be read, or an override does not fit it.
    """
    run_folder = run_folder or Path("runs", name_of(folder))
    if folder.resolve() in (run_folder.resolve(), run_folder.resolve().parent):
        raise ConfigError(
            f"--run {run_folder}: is the checkpoint's folder, or right in it, and what "
            "is made there would be read as the checkpoint's. Choose another folder"
        )
    files = read_files(folder, console)
    config = config_of_checkpoint(files, run_folder, overrides)
    command = f"transbeam import {folder} --run {run_folder}"
    stage = Stage(run_folder, IMPORTED, command)
    keys = dataclasses.asdict(config.model)
    inputs = {
        "reading": _READING,
        "files": checksums(folder),
        "model": keys,
        "overrides": list(overrides),
    }
    done = stage.result_if_done(inputs)
    # Whatever is wrong with the checkpoint shows before anything is written or moved.
    loaded = None if done else _load(files, config)
    with lock(run_folder):
        if done and (run_folder / RUN_FILE).exists():
            console.result(f"skipped: the same files made {stage.path} before")
            return {**done, "skipped": True}
        if loaded is None:
            loaded = _load(files, config)
        if moved := stage.begin(inputs):
            console.say(f"what was imported before is now in {moved}")
        result = _import(loaded, files, config, stage, console)
        result = {"source": str(folder.absolute()), **result}
        keep_edited(run_folder / RUN_FILE, console)
        save_config(run_folder, config)
        stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def keep_edited(file: Path, console: Console) -> None:
    """Puts a configuration that is there aside: someone may have written in it."""
    if not file.exists():
        return
    kept = file.with_name("run.before-import.yaml")
    os.replace(file, kept)
    console.say(f"the configuration that was there is now {kept}")


class _Loaded(NamedTuple):
    """A model with a checkpoint's weights; paths of those, and of a new head."""

    model: keras.Model
    old: dict[str, tuple[int, ...]]
    new: list[str]
    left_out: list[str]


def _load(files: ImportedFiles, config: RunConfig) -> _Loaded:
    """Builds the model and gives it the weights, all of which are checked."""
    checkpoint, tokenizer = files.checkpoint, files.tokenizer
    checkpoint.check_size(config.model)
    pieces = len(tokenizer.pieces) if tokenizer else checkpoint.vocabulary_size
    model = build_model(
        config.model,
        config.objective,
        pieces,
        segments=config.objective.kind in WITH_SEGMENTS,
        dtype="float32",
        seed=config.seed,
    )
    shapes = shapes_of(model)
    new = [path for path in shapes if is_head(path) and checkpoint.objective is None]
    old = {path: shape for path, shape in shapes.items() if path not in new}
    left_out = checkpoint.left_out(old)
    initial = {path: variables_of(model)[path].numpy() for path in new}
    assign(model, itertools.chain(checkpoint.weights(old), initial.items()))
    return _Loaded(model, old, new, left_out)


def _import(
    loaded: _Loaded,
    files: ImportedFiles,
    config: RunConfig,
    stage: Stage,
    console: Console,
) -> dict[str, Any]:
    """Writes all but `run.yaml` and the stage's own record."""
    model, old, new, left_out = loaded
    checkpoint, tokenizer = files.checkpoint, files.tokenizer
    values = ((path, variables_of(model)[path].numpy()) for path in old)
    save_weights_by_path(stage.path / INITIAL_WEIGHTS, values)
    if tokenizer:
        save_tokenizer(stage.path / TOKENIZER, tokenizer)
    if checkpoint.wrappers:
        parts = ", ".join(checkpoint.wrappers)
        console.say(f"taken out of the names of the weights: {parts}")
    if left_out:
        console.say(f"left out, of heads that are not asked for: {', '.join(left_out)}")
    if new:
        console.say(f"new, not in the checkpoint: {', '.join(new)}")
    kind = config.objective.kind
    if kind in ("classification", "regression"):
        console.say(
            "it reads one text at a time; if it was trained on pairs of texts, import "
            f"it with `--set objective.kind=pair_{kind}`"
        )
    if checkpoint.family == "roberta" and kind in _OF_TWO_TEXTS:
        console.warn(
            "between two texts RoBERTa was trained with `</s></s>`, and reads one "
            "`</s>` here: it answers otherwise than before. Train it on with pairs"
        )
    exportable = is_ready(config, tokenizer, new, has_vectors=files.has_vectors)
    if exportable:
        finish_stages(config, stage.run_folder, model, tokenizer, has_head=not new)
    parameters = model.count_params()
    run_folder = stage.run_folder
    file = run_folder / RUN_FILE
    step = next_step(config, tokenizer, file, run_folder, new, is_ready=exportable)
    summary = (
        f"{checkpoint.family} from {checkpoint.format}, {parameters:,} parameters, in "
        f"{run_folder}; {step}"
    )
    return {
        "summary": summary,
        "path": str(stage.path),
        "tokenizer": str(stage.path / TOKENIZER) if tokenizer else None,
        "format": checkpoint.format,
        "family": checkpoint.family,
        "parameters": parameters,
        "left_out": left_out,
        "new": new,
        "exportable": exportable,
    }


def finish_stages(
    config: RunConfig,
    run_folder: Path,
    model: keras.Model,
    tokenizer: TokenizerModel | None,
    *,
    has_head: bool = True,
) -> None:
    """Puts tokenizer and weights where the other commands look for them.

    Args:
        config: The run.
        run_folder: Its folder.
        model: With all its weights.
        tokenizer: The one in `imported`; None for a model that reads images.
        has_head: Whether its head has learned something.
    """
    data = data_stage(run_folder)
    inputs = data_inputs(config)
    if tokenizer is not None:
        # Another tokenizer at the same place is not put over what was made with this.
        brought = tokenizer_fingerprint(run_folder / IMPORTED / TOKENIZER)
        inputs["tokenizer_files"] = brought
    data.begin(inputs)
    save_tokenizer(data.path / TOKENIZER, tokenizer or _WORDLESS)
    print_of_tokenizer = tokenizer_fingerprint(data.path / TOKENIZER)
    # Stands for records that there are none of.
    records = f"{IMPORTED}-{fingerprint({'tokenizer': print_of_tokenizer})}"
    save_config(data.path, config)
    data.finish(
        inputs,
        {
            IMPORTED: True,
            "records_sha256": records,
            "vocabulary_fingerprint": print_of_tokenizer,
        },
    )
    training, inputs = training_stage(run_folder), training_inputs(config, records)
    training.begin(inputs)
    save_weights(model, training.path / WEIGHTS)
    save_config(training.path, config)
    weights = str(training.path / WEIGHTS)
    training.finish(inputs, {IMPORTED: True, HAS_HEAD: has_head, "weights": weights})
