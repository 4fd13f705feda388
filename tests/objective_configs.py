"""A small run of each kind of objective."""

from dataclasses import replace

from tests.serving.conftest import LENGTH, TINY
from transbeam.configs.base.reflection import section_kinds
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.objective import ImageObjective, Objective
from transbeam.configs.schema.objectives.traits import TRAITS, fields_needed, traits
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import ArraysSourceConfig
from transbeam.configs.schema.table_sources import (
    ConllSourceConfig,
    CsvSourceConfig,
    SquadSourceConfig,
)

SIDE = 4
KEYS = {
    "labels": ("a", "b"),
    "source": "{text} {second_text}",
    "prompt": "{text} {second_text}: ",
    "chat_template": "plain",
    "image_size": SIDE,
    "max_question_length": 8,
    "decoder_length": LENGTH,
}
MODELS = {
    "encoder": EncoderConfig,
    "decoder": DecoderConfig,
    "seq2seq": Seq2SeqModelConfig,
}
KINDS = section_kinds(Objective)
# Each kind of objective with each kind of model that it trains.
EVERY = [(kind, model) for kind, row in TRAITS.items() for model in row.models]


def config_of(kind: str, model_kind: str | None = None) -> RunConfig:
    """A run of the kind with a tiny model.

    Args:
        kind: The kind of the objective.
        model_kind: That of the model; None for the usual one.
    """
    section = KINDS[kind]
    names = section.__dataclass_fields__
    objective = section(**{k: v for k, v in KEYS.items() if k in names})
    needed = fields_needed(objective)
    if isinstance(objective, ImageObjective):
        source = ArraysSourceConfig(path="x.npz")
    elif "words" in needed:
        source = ConllSourceConfig(path="x.conll")
    elif "answers" in needed:
        source = SquadSourceConfig(path="x.json")
    else:
        columns = {name: name for name in needed if name != "text"}
        source = CsvSourceConfig(path="x.csv", columns=ColumnsConfig(**columns))
    model = MODELS[model_kind or traits(objective).models[0]](
        num_layers=1,
        hidden_dim=16,
        max_sequence_length=LENGTH,
        attention=replace(TINY.model.attention, num_heads=2),
        feedforward=replace(TINY.model.feedforward, intermediate_dim=16),
    )
    if isinstance(model, EncoderConfig):
        model = replace(model, num_segments=2 if traits(objective).has_segments else 0)
    if isinstance(objective, ImageObjective):
        patches = PatchesConfig(image_size=SIDE, patch_size=2)
        model = replace(model, patches=patches, max_sequence_length=5)
    # Only corrupted spans are replaced by sentinels.
    sentinels = 16 if kind == "span_corruption" else 0
    return replace(
        TINY,
        data=replace(TINY.data, source=source),
        tokenizer=replace(TINY.tokenizer, num_sentinels=sentinels),
        objective=objective,
        model=model,
        export=replace(TINY.export, examples=()),
    )
