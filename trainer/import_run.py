"""`transbeam import`: a run's folder out of a checkpoint that others trained.

    RUN/run.yaml                       the configuration; edit data.source, then train
    RUN/imported/stage.json            where the weights are from, with checksums
    RUN/imported/weights.safetensors   where training begins (training.initial_weights)
    RUN/imported/tokenizer             the tokenizer (tokenizer.path)
    RUN/data, RUN/training             finished stages, for `transbeam export`: without
                                       records, and with the weights as they came

The two stages are there only if nothing of the model is missing, neither its head nor
its tokenizer, and it is of a kind that can be exported. `transbeam data` and `transbeam
train` put their own in their place.
"""

import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from configs.console import Console
from configs.data import DataConfig
from configs.errors import ArtifactError, UserError
from configs.fitting import WITH_SEGMENTS
from configs.load import dump_run, parse_run
from configs.model import EncoderConfig, Model
from configs.objective import ImageClassificationConfig, MaskedConfig, Objective
from configs.run import RunConfig
from configs.run_folder import Stage, fingerprint, lock, save_config
from configs.schedules import CosineSchedule
from configs.sources import ImagesSource, PythonDocsSource
from configs.tokenizer import PretrainedConfig, WordPieceConfig
from configs.training import TrainingConfig
from model.build import build_model
from model.paths import is_head
from model.weights.assign import assign, shapes_of, variables_of
from model.weights.checkpoint import Checkpoint
from model.weights.reading import read_checkpoint
from model.weights.settings import Settings
from model.weights.sources import PICKLES
from model.weights.store import save_weights_by_path
from pipeline.stage import data_inputs, data_stage
from pipeline.tokenizers.artifact import (
    TokenizerModel,
    save_tokenizer,
    tokenizer_fingerprint,
)
from pipeline.tokenizers.imports import import_tokenizer
from trainer.after_import import can_export, next_step
from trainer.stage import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
    training_inputs,
    training_stage,
)
from trainer.weights import save_weights

RUN_FILE = "run.yaml"

# T5 has sentinels that its SentencePiece file does not name.
_T5_SENTINELS = 100


def import_run(
    folder: Path, run_folder: Path | None, overrides: Sequence[str], console: Console
) -> dict[str, Any]:
    """Makes a run's folder out of a checkpoint, or finds it made.

    Args:
        folder: What `model.weights.reading.read_checkpoint` reads, with the files of
            the tokenizer.
        run_folder: The run's folder; `runs/` and the name of `folder` if left out.
        overrides: `KEY=VALUE`, for `run.yaml`.
        console: Hears what is done.

    Returns:
        The stage's result: where the weights are from, and what is new or left out.

    Raises:
        UserError: The checkpoint cannot be read, or an override does not fit it.
    """
    run_folder = run_folder or Path("runs", name_of(folder))
    checkpoint = read_checkpoint(folder)
    tokenizer = _read_tokenizer(folder, checkpoint, console)
    config = _config(checkpoint, tokenizer, run_folder, overrides)
    command = f"transbeam import {folder} --run {run_folder}"
    stage = Stage(run_folder, IMPORTED, command)
    keys = dataclasses.asdict(config.model)
    inputs = {"files": _checksums(folder), "model": keys, "overrides": list(overrides)}
    done = stage.result_if_done(inputs)
    # Whatever is wrong with the checkpoint shows before anything is written or moved.
    loaded = None if done else _load(checkpoint, tokenizer, config)
    with lock(run_folder):
        if done and (run_folder / RUN_FILE).exists():
            console.result(f"skipped: the same files made {stage.path} before")
            return {**done, "skipped": True}
        if loaded is None:
            loaded = _load(checkpoint, tokenizer, config)
        if moved := stage.begin(inputs):
            console.say(f"what was imported before is now in {moved}")
        result = _import(loaded, checkpoint, tokenizer, config, stage, console)
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


def _load(
    checkpoint: Checkpoint, tokenizer: TokenizerModel | None, config: RunConfig
) -> _Loaded:
    """Builds the model and gives it the weights, all of which are checked."""
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
    checkpoint: Checkpoint,
    tokenizer: TokenizerModel | None,
    config: RunConfig,
    stage: Stage,
    console: Console,
) -> dict[str, Any]:
    """Writes all but `run.yaml` and the stage's own record."""
    model, old, new, left_out = loaded
    values = ((path, variables_of(model)[path].numpy()) for path in old)
    save_weights_by_path(stage.path / INITIAL_WEIGHTS, values)
    if tokenizer:
        save_tokenizer(stage.path / TOKENIZER, tokenizer)
    if left_out:
        console.say(f"left out, of heads that are not asked for: {', '.join(left_out)}")
    if new:
        console.say(f"new, not in the checkpoint: {', '.join(new)}")
    exportable = can_export(config, tokenizer)
    if exportable and tokenizer and not new:
        finish_stages(config, stage.run_folder, model, tokenizer)
    parameters = model.count_params()
    run_folder = stage.run_folder
    step = next_step(config, tokenizer, run_folder / RUN_FILE, run_folder)
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
        "exportable": exportable and not new,
    }


def finish_stages(
    config: RunConfig, run_folder: Path, model: keras.Model, tokenizer: TokenizerModel
) -> None:
    """Puts tokenizer and weights where the other commands look for them."""
    data = data_stage(run_folder)
    print_of_tokenizer = tokenizer_fingerprint(run_folder / IMPORTED / TOKENIZER)
    # Another tokenizer at the same place is not put over what was made with this one.
    inputs = {**data_inputs(config), "tokenizer_files": print_of_tokenizer}
    data.begin(inputs)
    save_tokenizer(data.path / TOKENIZER, tokenizer)
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
    training.finish(inputs, {IMPORTED: True, "weights": str(training.path / WEIGHTS)})


def _config(
    checkpoint: Checkpoint,
    tokenizer: TokenizerModel | None,
    run_folder: Path,
    overrides: Sequence[str],
) -> RunConfig:
    """The run that goes on from a checkpoint.

    Its `data.source` is a stand-in, which every machine has; whoever imports knows
    better.
    """
    model = checkpoint.config
    patches = model.patches if isinstance(model, EncoderConfig) else None
    if tokenizer:
        pieces = len(tokenizer.pieces)
        multiple = _multiple(checkpoint.vocabulary_size, pieces, checkpoint.where)
        model = dataclasses.replace(model, vocabulary_multiple=multiple)
    imported = run_folder / IMPORTED
    config = RunConfig(
        name=name_of(run_folder),
        data=DataConfig(
            source=ImagesSource(path="images/*/*", image_size=patches.image_size)
            if patches
            else PythonDocsSource(packages=("tensorflow", "keras", "numpy")),
            sequence_length=min(128, model.max_sequence_length),
        ),
        tokenizer=WordPieceConfig()
        if patches
        else PretrainedConfig(path=str(imported / TOKENIZER)),
        objective=checkpoint.objective or _objective_for(model),
        model=model,
        training=TrainingConfig(
            steps=10_000,
            # What the papers train further with, a hundredth of a first training's.
            schedule=CosineSchedule(peak=5e-5, warmup_steps=500),
            initial_weights=str(imported / INITIAL_WEIGHTS),
        ),
    )
    # The text is nowhere yet: that it has lines helps nobody.
    return parse_run(
        dump_run(config),
        f"the run made of {checkpoint.where}",
        overrides,
        with_model=True,
        lines=False,
    )


def _objective_for(model: Model) -> Objective:
    """What a body without a head can be trained for, in want of anything better."""
    patches = model.patches if isinstance(model, EncoderConfig) else None
    if patches is None:
        return MaskedConfig()
    return ImageClassificationConfig(
        labels=("LABEL_0", "LABEL_1"),
        image_size=patches.image_size,
        channels=patches.num_channels,
    )


def _multiple(rows: int, pieces: int, where: str) -> int:
    """The smallest multiple to which a vocabulary is rounded up to the table's rows.

    Example:
    >>> _multiple(rows=32_128, pieces=32_100, where="t5"), _multiple(8, 8, "bert")
    (32, 1)
    """
    if pieces > rows:
        raise ArtifactError(
            f"{where}: the tokenizer has {pieces:,} pieces, and the weights are for "
            f"{rows:,}. Put the tokenizer there that the model was trained with"
        )
    return next(m for m in range(1, rows + 1) if -(-pieces // m) * m == rows)


def _read_tokenizer(
    folder: Path, checkpoint: Checkpoint, console: Console
) -> TokenizerModel | None:
    """The tokenizer beside the weights; None, and a warning, if it cannot be had."""
    config = checkpoint.config
    if isinstance(config, EncoderConfig) and config.patches:
        return None
    try:
        if checkpoint.format == "keras_hub":
            return _read_preset_tokenizer(folder)
        return _read_tokenizer_files(folder, checkpoint.family)
    except UserError as error:
        console.warn(
            f"no tokenizer is imported: {str(error).rstrip('.')}. Without the one it "
            "was trained with, the model cannot read text"
        )
        return None


def _read_tokenizer_files(folder: Path, family: str) -> TokenizerModel:
    named = folder / "tokenizer_config.json"
    told = Settings.of_file(named) if named.is_file() else Settings({}, str(named))
    sentinels = (
        told.integer("extra_ids", _T5_SENTINELS, minimum=0) if family == "t5" else 0
    )
    has_pieces = any(folder.glob("*.model")) or any(folder.glob("*.spm"))
    is_text = (folder / "vocab.txt").is_file() and not (
        has_pieces or (folder / "tokenizer.json").is_file()
    )
    return import_tokenizer(
        folder,
        lowercase=_flag(told, "do_lower_case") if is_text else None,
        strip_accents=_flag(told, "strip_accents") if is_text else None,
        num_sentinels=sentinels if has_pieces else 0,
    )


def _flag(told: Settings, key: str) -> bool | None:
    """True or false; None if it is left out."""
    return told.flag(key, False) if key in told else None


def _read_preset_tokenizer(folder: Path) -> TokenizerModel:
    """KerasHub calls the same files otherwise."""
    assets = folder / "assets/tokenizer"
    text, pieces = assets / "vocabulary.txt", assets / "vocabulary.spm"
    if text.is_file():
        told = Settings.of_file(folder / "tokenizer.json").section("config")
        return import_tokenizer(text, lowercase=told.flag("lowercase", False))
    return import_tokenizer(pieces if pieces.is_file() else assets)


def name_of(folder: Path) -> str:
    """A run's name out of a folder's.

    Example:
    >>> name_of(Path("models/bert base (uncased)"))
    'bert-base-uncased'
    """
    words = re.findall(r"[A-Za-z0-9][A-Za-z0-9._]*", folder.absolute().name)
    return "-".join(words) or "imported"


def _checksums(folder: Path) -> dict[str, str]:
    """The sha256 of the files of a checkpoint; pickles are none of it."""
    sums = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in PICKLES:
            with path.open("rb") as stream:
                sums[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return sums
