"""`transbeam trim`: derives a run with only the vocabulary that a corpus needs.

The folder's layout is described in `transbeam.trainer.derived_runs.derived_run`; the
new run's tokenizer has the remaining pieces. Texts of the corpus are tokenized as
before, and the model's outputs for them are the same; see
`transbeam.pipeline.tokenizers.training.vocabulary_trimming`. The new model has no
logits for the removed pieces.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import IMPORTED, TOKENIZER, find_model_weights
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import PretrainedConfig
from transbeam.model.cost.weight_shapes import table_rows
from transbeam.model.weights.vocabulary_trimming import slice_vocabulary
from transbeam.pipeline.accounting.reading_summary import not_read, show_reading
from transbeam.pipeline.sources.corpus_files import corpus_fingerprint, list_files
from transbeam.pipeline.steps.count_words import words_of_corpus
from transbeam.pipeline.tokenizers.training.vocabulary_trimming import Trimmed, trim
from transbeam.trainer.base.warm_start import Origin, find_origin
from transbeam.trainer.derived_runs.derived_run import (
    DerivedModel,
    DerivedRun,
    build_smaller,
    derived_config,
    folder_for,
    origin_tokenizer,
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
    """Derives a run with a smaller vocabulary, unless the same run already exists.

    Args:
        folder: A run that was trained or imported. The corpus is its `data.source`,
            unless `overrides` has another.
        run_folder: The new run's folder; `runs/` and the name of `folder` with
            `_trimmed` by default.
        overrides: `KEY=VALUE`, for the new `run.yaml`.
        console: Prints progress and the result.
        min_count: A piece is kept if at least this many words of the corpus need it.
        max_size: Largest vocabulary size; None for no limit.

    Returns:
        The stage's result: the number of pieces, parameter counts before and after, the
        number of corpus words that are tokenized differently, and, on reading the
        corpus, `unread` (bytes and files), `noted`, `encodings` and
        `dropped_in_sentences`.

    Raises:
        UserError: There is no model, the model reads images, its tokenizer cannot be
            trimmed, or the corpus is missing or has an incomplete file.
    """
    run_folder = folder_for(folder, run_folder, "trimmed")
    origin = find_origin(folder)
    reads_images = isinstance(origin.config.objective, ImageObjective)
    if origin.tokenizer is None or reads_images:
        raise ArtifactError(
            f"{folder}: has no vocabulary to be trimmed: the model reads images, or "
            "came without a tokenizer"
        )
    config = _config(origin.config, run_folder, overrides)
    sources = config.data.source, config.data.validation_source
    run = DerivedRun.from_origin(
        origin,
        config,
        run_folder,
        "trim",
        corpus=corpus_fingerprint(list_files(*sources)),
        overrides=list(overrides),
        min_count=min_count,
        max_size=max_size,
    )
    if done := run.made_before(console, "the same run and corpus"):
        return done
    model = origin_tokenizer(origin)
    trimmed = trim(model, {}, max_size=max_size)  # refused before the corpus is read
    found = words_of_corpus(config, model.build())
    trimmed = trim(model, found.counts, min_count=min_count, max_size=max_size)
    # Built first, so that a mismatch is reported before anything is written or moved.
    smaller = _smaller(origin, trimmed, config)
    show_reading(console, found.reading)
    entries = _result_entries(run, smaller, trimmed, found.reading)
    return run.write(smaller, trimmed.model, entries, console)


def _config(old: RunConfig, run_folder: Path, overrides: Sequence[str]) -> RunConfig:
    """Derives the new run's configuration: smaller vocabulary and trimmed weights.

    A teacher and the records of other runs use the whole vocabulary, so they are
    dropped.
    """
    path = str(run_folder / IMPORTED / TOKENIZER)
    old = dataclasses.replace(old, tokenizer=PretrainedConfig(path=path))
    return derived_config(old, run_folder, overrides, distillation=None, datasets=())


def _smaller(origin: Origin, trimmed: Trimmed, config: RunConfig) -> DerivedModel:
    pieces = len(trimmed.old_ids)
    old = origin.values()
    weights = dict(
        slice_vocabulary(old, trimmed.old_ids, table_rows(config.model, pieces))
    )
    return build_smaller(
        config, pieces, old, weights, str(find_model_weights(origin.folder))
    )


def _result_entries(
    run: DerivedRun, smaller: DerivedModel, trimmed: Trimmed, reading: Mapping[str, Any]
) -> dict[str, Any]:
    pieces = len(trimmed.old_ids)
    changed = f"{trimmed.changed:,} of the corpus's {trimmed.words:,} words"
    exportable = run.is_exportable(smaller, trimmed.model)
    return {
        "summary": f"{pieces:,} pieces and {smaller.parameters:,} parameters (of "
        f"{smaller.parameters_before:,}) in {run.stage.run_folder}; {changed} are cut "
        f"in another way{not_read(reading)}; "
        f"{run.command('export' if exportable else 'data')}",
        "pieces": pieces,
        "words": trimmed.words,
        "changed_words": trimmed.changed,
        **reading,
    }
