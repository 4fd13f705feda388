"""`transbeam import`: converts a pretrained checkpoint to a run's folder.

    RUN/run.yaml                       the configuration; data.source is a placeholder
    RUN/imported/stage.json            the source of the weights, with checksums
    RUN/imported/weights.safetensors   initial weights (training.initial_weights)
    RUN/imported/tokenizer             the tokenizer (tokenizer.path)
    RUN/data, RUN/training             finished stages, for `transbeam export`: without
                                       records, and with the imported weights

The data and training stages are written only if the model is complete, with its head
and its tokenizer, and of a kind that can be exported; or if it is a headless model that
computes text embeddings. Running `transbeam data` and `transbeam train` later replaces
these two stages.
"""

import dataclasses
import itertools
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
    training_stage,
)
from transbeam.configs.loader.run_file import RUN_FILE
from transbeam.configs.loader.run_folder import Stage, fingerprint, lock, save_config
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    ImageObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.weight_paths import is_head
from transbeam.model.build import build_model
from transbeam.model.weights.assign import assign, variable_shapes, variables_by_path
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.pipeline.stage import data_inputs, data_stage
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.trainer.base.training_stage import HAS_HEAD, training_inputs
from transbeam.trainer.base.weight_files import save_weights
from transbeam.trainer.importing.checkpoint_files import (
    ImportedFiles,
    checksums,
    read_files,
)
from transbeam.trainer.importing.run_config import config_of_checkpoint, folder_run_name

# Incremented when more of a checkpoint is read, so that files are imported again.
_READING = 3

# Images have no words; the data job of such a run makes the same.
_WORDLESS = WordPieceModel(pieces=SPECIAL_PIECES, lowercase=True, strip_accents=True)


def import_run(
    folder: Path, run_folder: Path | None, overrides: Sequence[str], console: Console
) -> dict[str, Any]:
    """Converts a checkpoint to a run's folder, unless that was done before.

    Args:
        folder: A folder for
            `transbeam.model.weights.checkpoint_import.read_checkpoint`, with the
            tokenizer's files.
        run_folder: The run's folder; `runs/` and the name of `folder` if left out.
        overrides: `KEY=VALUE`, for `run.yaml`.
        console: Prints progress and the result.

    Returns:
        The stage's result: the source of the weights, newly initialized weights, and
        weights of the checkpoint that are left out.

    Raises:
        UserError: The checkpoint cannot be read, or an override does not fit it.
    """
    run_folder = run_folder or Path("runs", folder_run_name(folder))
    if folder.resolve() in (run_folder.resolve(), run_folder.resolve().parent):
        raise ConfigError(
            f"--run {run_folder}: is the checkpoint's folder, or right in it, and what "
            "is made there would be read as the checkpoint's. Choose another folder"
        )
    files = read_files(folder, console)
    config = config_of_checkpoint(files, run_folder, overrides)
    stage = Stage(run_folder, IMPORTED, f"transbeam import {folder} --run {run_folder}")
    keys = dataclasses.asdict(config.model)
    inputs = {
        "reading": _READING,
        "files": checksums(folder),
        "model": keys,
        "overrides": list(overrides),
    }
    done = stage.result_if_done(inputs)
    # Loaded first, so that errors are reported before anything is written or moved.
    loaded = None if done else _load(files, config)
    with lock(run_folder):
        if done and (run_folder / RUN_FILE).exists():
            console.result(f"skipped: {stage.path} was made from the same files")
            return {**done, "skipped": True}
        if loaded is None:
            loaded = _load(files, config)
        if moved := stage.begin(inputs):
            console.say(f"the earlier import is now in {moved}")
        result = _import(loaded, files, config, stage, console)
        result = {"source": str(folder.absolute()), **result}
        keep_edited(run_folder / RUN_FILE, console)
        save_config(run_folder, config)
        stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def keep_edited(file: Path, console: Console) -> None:
    """Renames an existing configuration file, which the user may have edited."""
    if not file.exists():
        return
    kept = file.with_name("run.before-import.yaml")
    os.replace(file, kept)
    console.say(f"the configuration that was there is now {kept}")


class _Loaded(NamedTuple):
    """A model with a checkpoint's weights.

    Attributes:
        model: The model.
        old: Shapes of the checkpoint's weights, by path.
        new: Paths of the weights of a newly initialized head.
        left_out: Weights of the checkpoint that the model does not have.
    """

    model: keras.Model
    old: dict[str, tuple[int, ...]]
    new: list[str]
    left_out: list[str]


def _load(files: ImportedFiles, config: RunConfig) -> _Loaded:
    """Builds the model and loads all weights, with checks."""
    checkpoint, tokenizer = files.checkpoint, files.tokenizer
    checkpoint.check_size(config.model)
    pieces = len(tokenizer.pieces) if tokenizer else checkpoint.vocabulary_size
    model = build_model(
        config.model,
        config.objective,
        pieces,
        segments=traits(config.objective).has_segments,
        dtype="float32",
        seed=config.seed,
    )
    shapes = variable_shapes(model)
    new = [path for path in shapes if is_head(path) and checkpoint.objective is None]
    old = {path: shape for path, shape in shapes.items() if path not in new}
    left_out = checkpoint.left_out(old)
    initial = {path: variables_by_path(model)[path].numpy() for path in new}
    assign(model, itertools.chain(checkpoint.weights(old), initial.items()))
    return _Loaded(model, old, new, left_out)


def _import(
    loaded: _Loaded,
    files: ImportedFiles,
    config: RunConfig,
    stage: Stage,
    console: Console,
) -> dict[str, Any]:
    """Writes all files except `run.yaml` and `stage.json`; returns the result."""
    model, old, new, left_out = loaded
    checkpoint, tokenizer = files.checkpoint, files.tokenizer
    values = ((path, variables_by_path(model)[path].numpy()) for path in old)
    save_weights_by_path(stage.path / INITIAL_WEIGHTS, values)
    if tokenizer:
        save_tokenizer(stage.path / TOKENIZER, tokenizer)
    if checkpoint.wrappers:
        parts = ", ".join(checkpoint.wrappers)
        console.say(f"components removed from the weights' names: {parts}")
    if left_out:
        console.say(f"not imported, heads of other objectives: {', '.join(left_out)}")
    if new:
        console.say(f"newly initialized, not in the checkpoint: {', '.join(new)}")
    kind = config.objective.kind
    if kind in ("classification", "regression"):
        console.say(
            "the model is imported for single texts; if it was trained on pairs, "
            f"import it with `--set objective.kind=pair_{kind}`"
        )
    is_pair = traits(config.objective).has_segments
    if isinstance(config.model, DecoderConfig) and is_pair:
        console.warn(
            "the end token is put between two texts, where transformers puts a "
            "decoder's texts directly one after the other, so predictions differ. "
            "Fine-tune it on pairs"
        )
    if checkpoint.family == "roberta" and is_pair:
        console.warn(
            "RoBERTa was trained with `</s></s>` between two texts, and gets one "
            "`</s>` here, so predictions differ. Fine-tune it on pairs"
        )
    exportable = is_ready(config, tokenizer, new, has_vectors=files.has_vectors)
    if exportable:
        has_head = not new and not files.embeds
        finish_stages(config, stage.run_folder, model, tokenizer, has_head=has_head)
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
    """Writes the data and training stages, so that other commands find the model.

    Args:
        config: The run.
        run_folder: Its folder.
        model: The model with all its weights.
        tokenizer: The tokenizer in `imported`; None for an image model.
        has_head: False if the head is newly initialized, or not used.
    """
    data = data_stage(run_folder)
    inputs = data_inputs(config)
    if tokenizer is not None:
        # An input, so that another tokenizer at the same path makes a new stage.
        inputs["tokenizer_files"] = tokenizer_fingerprint(
            run_folder / IMPORTED / TOKENIZER
        )
    data.begin(inputs)
    save_tokenizer(data.path / TOKENIZER, tokenizer or _WORDLESS)
    print_of_tokenizer = tokenizer_fingerprint(data.path / TOKENIZER)
    # Takes the place of the records' fingerprint, as there are no records.
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


def can_export(config: RunConfig, tokenizer: TokenizerModel | None) -> bool:
    """Returns whether this version can export a trained model of the run."""
    try:
        check_export(config)
    except ConfigError:
        return False
    return tokenizer is not None or reads_images(config)


def is_ready(
    config: RunConfig,
    tokenizer: TokenizerModel | None,
    new: Sequence[str],
    *,
    has_vectors: bool = True,
) -> bool:
    """Returns whether a run can be exported without training.

    A model whose head is newly initialized can be exported, too, for text embeddings.

    Args:
        config: The run.
        tokenizer: The imported tokenizer; None if there was none.
        new: Paths of newly initialized weights, all of them in the head.
        has_vectors: True if the exported text embeddings would equal those of the
            checkpoint.
    """
    if not can_export(config, tokenizer):
        return False
    if isinstance(config.objective, EmbeddingObjective):
        return not new and has_vectors
    return not new or (isinstance(config.objective, MaskedConfig) and has_vectors)


def reads_images(config: RunConfig) -> bool:
    """Returns whether a run's model needs no tokenizer."""
    return isinstance(config.objective, ImageObjective)


def next_step(
    config: RunConfig,
    tokenizer: TokenizerModel | None,
    file: Path,
    run_folder: Path,
    new: Sequence[str] = (),
    *,
    is_ready: bool = True,
) -> str:
    """Describes the next commands, and what the imported model cannot be used for.

    Args:
        config: The run.
        tokenizer: The imported tokenizer; None if there was none.
        file: The run's configuration.
        run_folder: Its folder.
        new: Paths of newly initialized weights, all of them in the head.
        is_ready: True if the run can be exported without training.
    """
    if tokenizer is None and not reads_images(config):
        return (
            "without a tokenizer only Python can use it: put the tokenizer's files "
            "beside the weights and import again"
        )
    words = [str(file)]
    if run_folder != Path("runs", config.name):  # the default folder
        words += ["--run", str(run_folder)]
    rest = shlex.join(words)
    corpus = f"name your corpus in data.source of {file}"
    if not can_export(config, tokenizer):
        return (
            f"{corpus}, then `transbeam data {rest}` and `transbeam train {rest}`; "
            "this version of Transbeam does not export it (`transbeam check "
            f"{shlex.quote(str(file))}` says why)"
        )
    if not is_ready:
        return (
            f"its head is new and has learned nothing: {corpus}, then `transbeam run "
            f"{rest}`"
        )
    what = "its vectors of texts ready" if new else "it ready as it is"
    return (
        f"`transbeam export {rest}` makes {what}, for `transbeam serve` or, "
        f"with `--target phone`, for phones; to train it on, first {corpus}"
    )
