"""The pictures of a run: its parameters, positions, masks and schedule."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.model_files import find_model_files
from transbeam.configs.schema.block import (
    LearnedPositionConfig,
    RelativeBiasPositionConfig,
)
from transbeam.configs.schema.data import PackedLayoutConfig
from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.configs.schema.objectives.objective import (
    FillsObjective,
    ImageObjective,
    TextObjective,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.model.cost.parameters import as_trained, count_head, count_parameters
from transbeam.model.cost.report import find_vocabulary_size
from transbeam.model.cost.stacks import record_lengths
from transbeam.model.stack.stack_spec import stack_specs
from transbeam.trainer.base.warm_start import find_origin
from transbeam.trainer.explanation.mask_pictures import (
    draw_masks,
    one_document,
    packed_documents,
    with_prefix,
)
from transbeam.trainer.explanation.picture import Picture
from transbeam.trainer.explanation.position_pictures import draw_position
from transbeam.trainer.explanation.schedule_pictures import (
    draw_parameters,
    draw_schedules,
)

# Updates of a training whose number is not known yet.
_STEPS = 1_000


def draw_run(run: RunConfig, path: Path) -> list[Picture]:
    """Draws a run's parameters, positions, masks and schedule.

    Args:
        run: The run.
        path: Its configuration or its folder, which may have trained positions.

    Raises:
        UserError: The tokenizer does not exist, so the vocabulary size is unknown.
    """
    size = find_vocabulary_size(run)
    model = as_trained(run.model, run.objective)
    heads = count_head(run.model, run.objective, size)
    parts = count_parameters(model, size, run.objective) | heads
    pictures = [draw_parameters({name: n for name, n in parts.items() if n})]
    lengths = record_lengths(run)
    specs = stack_specs(model, seed=run.seed)
    tables = _trained_tables(run, path)
    for name, spec in specs.items():
        is_second = name == "decoder" and len(specs) > 1
        length = lengths.decoder_tokens if is_second else lengths.tokens
        found = [
            draw_position(spec, length, tables.get(name)),
            draw_masks(spec, _rows(run, length)),
        ]
        if len(specs) > 1:
            found = [_of_stack(name, picture) for picture in found]
        pictures += found
    training = run.training
    steps = training.steps or _STEPS
    schedule = {"": training.schedule}
    planned = draw_schedules(schedule, steps, model.hidden_dim, training.pruning)
    if training.steps is None:
        note = (
            f"{planned.note} The training has {training.epochs:g} epochs, whose number "
            "of updates is known once the records are made."
        )
        planned = replace(planned, note=note)
    return [*pictures, planned]


def _of_stack(name: str, picture: Picture) -> Picture:
    title = f"{name}: {picture.title}"
    return replace(picture, name=f"{name}_{picture.name}", title=title)


def _rows(run: RunConfig, length: int) -> dict[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = {"one document": one_document(length)}
    packs = isinstance(run.objective, TextObjective | FillsObjective)
    if packs and isinstance(run.data.layout, PackedLayoutConfig):
        rows["packed documents"] = packed_documents(length)
    if isinstance(run.objective, PrefixConfig):
        rows["prefix"] = with_prefix(length)
    if isinstance(run.objective, ImageObjective):
        rows = {"squares of an image": one_document(length)}
    return rows


def _trained_tables(run: RunConfig, path: Path) -> dict[str, np.ndarray]:
    """Reads the trained weights of learned positions and biases, by stack."""
    position = run.model.position
    names = {
        LearnedPositionConfig: "position_embedding",
        RelativeBiasPositionConfig: "relative_bias",
    }
    if not path.is_dir() or type(position) not in names:
        return {}
    try:
        find_model_files(path)
    except ArtifactError:
        return {}  # it is not trained yet
    weights = find_origin(path).values()
    found = {}
    for stack, spec in stack_specs(run.model).items():
        key = f"{spec.prefix}{names[type(position)]}/embeddings"
        if key in weights:
            found[stack] = weights[key]
    return found
