"""`transbeam trim`: a run's folder with the part of a vocabulary that a corpus needs.

    NEW/run.yaml                       the configuration; train on with it, if you like
    NEW/imported/stage.json            where the weights are from, and what is gone
    NEW/imported/weights.safetensors   all weights, of the pieces that are left
    NEW/imported/tokenizer             the tokenizer with these
    NEW/data, NEW/training             finished stages, for `transbeam export`

It is the folder that `transbeam import` makes, of a run instead of a checkpoint. Texts
of the corpus are read as before, and answered with the same numbers; see
`pipeline.tokenizers.trimming`. What the model says of pieces that are gone is gone.
"""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from configs.console import Console
from configs.errors import ArtifactError
from configs.fitting import WITH_SEGMENTS
from configs.load import dump_run, parse_run
from configs.objective import ImageClassificationConfig
from configs.run import RunConfig
from configs.run_folder import Stage, lock, save_config
from configs.tokenizer import PretrainedConfig
from model.build import build_model
from model.cost.weights import table_rows
from model.weights.store import save_weights_by_path, take_over
from model.weights.trimming import of_some_tokens
from pipeline.corpus import corpus_fingerprint, list_files
from pipeline.corpus_words import words_of_corpus
from pipeline.stage import data_inputs
from pipeline.tokenizers.artifact import read_tokenizer, save_tokenizer
from pipeline.tokenizers.trimming import Trimmed, trim
from trainer.after_import import can_export
from trainer.import_run import RUN_FILE, finish_stages, keep_edited, name_of
from trainer.origin import Origin, origin_of
from trainer.stage import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    sha256_of,
    weights_of,
)


def trim_run(
    folder: Path,
    run_folder: Path | None,
    overrides: Sequence[str],
    console: Console,
    *,
    min_count: int = 1,
    max_size: int | None = None,
) -> dict[str, Any]:
    """Makes a run's folder with a smaller vocabulary, or finds it made.

    Args:
        folder: A run that was trained or imported. Its `data.source`, or another one
            among `overrides`, is the corpus.
        run_folder: The new run's folder; `runs/` and the name of `folder` with
            `_trimmed` if left out.
        overrides: `KEY=VALUE`, for the new `run.yaml`.
        console: Hears what is done.
        min_count: How many words of the corpus must need a piece for it to stay.
        max_size: The most pieces there may be; None for no limit.

    Returns:
        The stage's result: how many pieces and weights there were and are, and how
        many words of the corpus are cut in another way.

    Raises:
        UserError: There is no model, it reads images, its tokenizer cannot be trimmed,
            or the corpus is not there.
    """
    run_folder = run_folder or Path("runs", f"{name_of(folder)}_trimmed")
    if run_folder.resolve() == folder.resolve():
        raise ArtifactError(
            f"{run_folder}: is the run that is to be trimmed. Give the smaller one a "
            "folder of its own: --run DIR"
        )
    origin = origin_of(folder)
    place = "data" if origin.vocabulary_size is not None else IMPORTED
    reads_images = isinstance(origin.config.objective, ImageClassificationConfig)
    if origin.tokenizer is None or reads_images:
        raise ArtifactError(
            f"{folder}: has no vocabulary to be trimmed: the model reads images, or "
            "came without a tokenizer"
        )
    config = _config(origin.config, run_folder, overrides)
    words = ["transbeam trim", str(folder), "--run", str(run_folder)]
    stage = Stage(run_folder, IMPORTED, " ".join(words))
    sources = config.data.source, config.data.validation_source
    inputs = {
        **data_inputs(config),
        "weights": sha256_of(weights_of(folder)),
        "tokenizer": origin.tokenizer,
        "corpus": corpus_fingerprint(list_files(*sources)),
        "model": dataclasses.asdict(config.model),
        "overrides": list(overrides),
        "min_count": min_count,
        "max_size": max_size,
    }
    if (done := stage.result_if_done(inputs)) and (run_folder / RUN_FILE).exists():
        console.result(f"skipped: the same run and corpus made {stage.path} before")
        return {**done, "skipped": True}
    model = read_tokenizer(folder / place / TOKENIZER).model
    trimmed = trim(model, {}, max_size=max_size)  # refused before the corpus is read
    found = words_of_corpus(config, model.build())
    trimmed = trim(model, found, min_count=min_count, max_size=max_size)
    # Whatever does not fit shows before anything is written or moved.
    smaller = _smaller(origin, trimmed, config)
    with lock(run_folder):
        if moved := stage.begin(inputs):
            console.say(f"what was there before is now in {moved}")
        result = _write(smaller, trimmed, config, stage)
        result = {"source": str(folder.absolute()), **result}
        keep_edited(run_folder / RUN_FILE, console)
        save_config(run_folder, config)
        stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def _config(old: RunConfig, run_folder: Path, overrides: Sequence[str]) -> RunConfig:
    """The run as it was, with the smaller vocabulary and the weights that belong to it.

    A teacher and the records of other runs read with the whole vocabulary, so they are
    not taken along.
    """
    imported = run_folder / IMPORTED
    config = dataclasses.replace(
        old,
        name=name_of(run_folder),
        tokenizer=PretrainedConfig(path=str(imported / TOKENIZER)),
        training=dataclasses.replace(
            old.training,
            init_from=None,
            initial_weights=str(imported / INITIAL_WEIGHTS),
            distillation=None,
            datasets=(),
        ),
    )
    return parse_run(
        dump_run(config),
        f"the run made of {old.name}",
        overrides,
        with_model=True,
        lines=False,
    )


class _Smaller(NamedTuple):
    """A model with the weights that are left; how many there were; its new head's."""

    model: keras.Model
    weights: dict[str, np.ndarray]
    parameters_before: int
    new: list[str]


def _smaller(origin: Origin, trimmed: Trimmed, config: RunConfig) -> _Smaller:
    pieces = len(trimmed.old_ids)
    model = build_model(
        config.model,
        config.objective,
        pieces,
        segments=config.objective.kind in WITH_SEGMENTS,
        dtype="float32",
        seed=config.seed,
    )
    old = origin.values()
    rows = table_rows(config.model, pieces)
    weights = dict(of_some_tokens(old, trimmed.old_ids, rows))
    new = take_over(model, weights, str(weights_of(origin.folder)))
    return _Smaller(model, weights, sum(x.size for x in old.values()), new)


def _write(
    smaller: _Smaller, trimmed: Trimmed, config: RunConfig, stage: Stage
) -> dict[str, Any]:
    """Writes all but `run.yaml` and the stage's own record."""
    model, weights, before, new = smaller
    pieces, after = len(trimmed.old_ids), sum(x.size for x in weights.values())
    save_weights_by_path(stage.path / INITIAL_WEIGHTS, weights.items())
    save_tokenizer(stage.path / TOKENIZER, trimmed.model)
    exportable = can_export(config, trimmed.model) and not new
    if exportable:
        finish_stages(config, stage.run_folder, model, trimmed.model)
    file = stage.run_folder / RUN_FILE
    run = shlex.join([str(file), "--run", str(stage.run_folder)])
    changed = f"{trimmed.changed:,} of the corpus's {trimmed.words:,} words"
    return {
        "summary": f"{pieces:,} pieces and {after:,} parameters (of {before:,}) in "
        f"{stage.run_folder}; {changed} are cut in another way; "
        + (f"`transbeam export {run}`" if exportable else f"`transbeam data {run}`"),
        "path": str(stage.path),
        "tokenizer": str(stage.path / TOKENIZER),
        "pieces": pieces,
        "parameters": after,
        "parameters_before": before,
        "words": trimmed.words,
        "changed_words": trimmed.changed,
        "new": new,
        "exportable": exportable,
    }
