"""The pictures of a run's configuration, or of all kinds of a key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.reflection import did_you_mean, section_kinds
from transbeam.configs.loader.explain import explain
from transbeam.configs.loader.model_files import find_model_files
from transbeam.configs.loader.summary import summary
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema import attention as kinds
from transbeam.configs.schema.attention import Attention, CausalAttention
from transbeam.configs.schema.block import (
    LearnedPositionConfig,
    LinearStretchConfig,
    NtkStretchConfig,
    Position,
    RelativeBiasPositionConfig,
    RopePositionConfig,
    YarnStretchConfig,
)
from transbeam.configs.schema.data import PackedLayoutConfig
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.configs.schema.objectives.objective import (
    FillsObjective,
    ImageObjective,
    TextObjective,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import Schedule
from transbeam.model.cost.parameters import as_trained, count_head, count_parameters
from transbeam.model.cost.report import find_vocabulary_size
from transbeam.model.cost.stacks import record_lengths
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
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


class ExplainedParts(NamedTuple):
    """Contents of a page.

    Attributes:
        title: The key, or the run's name.
        summary: A few lines on a run.
        keys: A list of keys below the pictures.
        pictures: The pictures, in order.
    """

    title: str
    summary: str
    keys: str
    pictures: list[Picture]


# Sizes of the examples.
_POSITIONS, _TOKENS, _STEPS = 128, 32, 1_000
_COLUMNS = 84  # of a page
_STRETCHES = (
    LinearStretchConfig(factor=4.0),
    NtkStretchConfig(factor=4.0),
    YarnStretchConfig(factor=4.0, original_length=64),
)
_SMALL_ATTENTIONS: dict[str, Attention] = {
    "full": kinds.FullAttentionConfig(),
    "sliding_window": kinds.SlidingWindowAttentionConfig(window_size=8),
    "global_window": kinds.GlobalWindowAttentionConfig(
        window_size=6, num_global_tokens=2
    ),
    "block_sparse": kinds.BlockSparseAttentionConfig(
        num_heads=1, block_size=2, num_random_blocks=1
    ),
    "low_rank": kinds.LowRankAttentionConfig(rank=8),
    "kernel": kinds.KernelAttentionConfig(),
}


def explained_parts(what: str, overrides: Sequence[str] = ()) -> ExplainedParts:
    """Draws the pictures of a key's kinds, or of a run.

    Args:
        what: A key of which there are pictures, the YAML file of a run, or its folder;
            empty for all keys of which there are pictures.
        overrides: `KEY=VALUE` overrides of the run.

    Raises:
        ConfigError: There are no pictures of the key, or the configuration is invalid.
    """
    if what in ("", *_BY_KEY):
        if overrides:
            raise ConfigError(
                f"--set {overrides[0]}: is for a run, and {what or 'KEY'} is a key"
            )
        if not what:
            every = [picture for draw in _BY_KEY.values() for picture in draw()]
            return ExplainedParts("Kinds", "", "", every)
        keys = explain(what, width=_COLUMNS)
        return ExplainedParts(what, "", keys, _BY_KEY[what]())
    path = Path(what)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{what}: there are pictures of {', '.join(_BY_KEY)}, and of a "
            f"run: its YAML file, or its folder.{did_you_mean(what, _BY_KEY)}"
        )
    run = load_run(path, overrides, with_model=True)
    return ExplainedParts(run.name, summary(run), "", draw_run(run, path))


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


def _draw_positions() -> list[Picture]:
    pictures = []
    for section in section_kinds(Position).values():
        variants: list[Any] = [section()]
        if section is RopePositionConfig:
            variants += [RopePositionConfig(stretch=stretch) for stretch in _STRETCHES]
        pictures += [
            draw_position(_example(variant), _POSITIONS) for variant in variants
        ]
    return pictures


def _example(position: Position) -> StackSpec:
    """An encoder with a position encoding, wide enough for its structure to show."""
    config = EncoderConfig(
        hidden_dim=128,
        max_sequence_length=_POSITIONS,
        position=position,
        attention=kinds.FullAttentionConfig(num_heads=8 if _has_heads(position) else 2),
    )
    return stack_specs(config)["encoder"]


def _has_heads(position: Position) -> bool:
    return "alibi" in position.kind


def _draw_attentions() -> list[Picture]:
    encoder = stack_specs(EncoderConfig(max_sequence_length=_TOKENS))["encoder"]
    decoder = stack_specs(DecoderConfig(max_sequence_length=_TOKENS))["decoder"]
    rows = {
        "encoder": one_document(_TOKENS),
        "encoder, packed": packed_documents(_TOKENS),
    }
    pictures = []
    for kind in section_kinds(Attention):
        attention = _SMALL_ATTENTIONS[kind]
        others: dict[str, tuple[StackSpec, Mapping[str, Any]]] = {}
        if isinstance(attention, CausalAttention):
            others = {
                "decoder": (decoder, one_document(_TOKENS)),
                "decoder, packed": (decoder, packed_documents(_TOKENS)),
            }
        if kind == "full":
            others["decoder, prefix"] = decoder, with_prefix(_TOKENS)
        pictures.append(draw_masks(encoder, rows, attention, others))
    return pictures


def _draw_schedules() -> list[Picture]:
    schedules = {
        kind: section(**({} if kind == "noam" else {"peak": 1e-3}))
        for kind, section in section_kinds(Schedule).items()
    }
    return [draw_schedules(schedules, _STEPS, hidden_dim=512)]


_BY_KEY: dict[str, Callable[[], list[Picture]]] = {
    "model.position": _draw_positions,
    "model.attention": _draw_attentions,
    "training.schedule": _draw_schedules,
}
