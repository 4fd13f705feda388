"""Everything that each kind of objective must have, for each kind of the table."""

import inspect
from dataclasses import replace
from typing import get_args

import pytest
import tensorflow as tf

from tests.model.conftest import tensorflow_only
from tests.serving.conftest import LENGTH, TINY
from tests.serving.untrained import untrained_of
from transbeam.configs.base.reflection import section_kinds
from transbeam.configs.loader.compatibility import check_model
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.objective import ImageObjective, Objective
from transbeam.configs.schema.objectives.traits import (
    TRAITS,
    fields_needed,
    input_names,
    traits,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import ArraysSourceConfig
from transbeam.configs.schema.table_sources import (
    ColumnsConfig,
    ConllSourceConfig,
    CsvSourceConfig,
    SquadSourceConfig,
)
from transbeam.configs.schema.tokenizer import UnigramConfig
from transbeam.model.cost.weight_shapes import head_shapes
from transbeam.pipeline.objectives.kinds import contract
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity import checker_factory
from transbeam.serving.phone.readme.sample_templates import USES
from transbeam.serving.predict.formatting.formatters import formatter_of_outputs
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.trainer.evaluation.error_analysis import make_collectors
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.objectives.objective_metrics import make_scorers

SIDE = 4
KEYS = {
    "labels": ("a", "b"),
    "source": "{text} {second_text}",
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


def config_of(kind: str) -> RunConfig:
    """A run of the kind with a tiny model."""
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
    model = MODELS[traits(objective).model](
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
    tokenizer = TINY.tokenizer
    if traits(objective).model == "seq2seq":
        tokenizer = UnigramConfig(vocabulary_size=140, specials="t5", num_sentinels=16)
    return replace(
        TINY,
        data=replace(TINY.data, source=source),
        tokenizer=tokenizer,
        objective=objective,
        model=model,
        export=replace(TINY.export, examples=()),
    )


@pytest.fixture(scope="module", params=TRAITS)
def trained(request, tmp_path_factory) -> TrainedRun:
    folder = tmp_path_factory.getbasetemp() / "tokenizers"
    folder.mkdir(exist_ok=True)
    return untrained_of(config_of(request.param), folder)


def test_the_table_has_each_kind_once() -> None:
    assert sorted(TRAITS) == sorted(KINDS)
    assert len(get_args(Objective)) == len(TRAITS)


@pytest.mark.parametrize("kind", TRAITS)
def test_configuration(kind: str) -> None:
    config = config_of(kind)
    check_model(config)
    check_needs(config)
    row = TRAITS[kind]
    assert len(row.example) == len(row.inputs)
    assert row.sentence.format(n=2)


@pytest.mark.parametrize("kind", TRAITS)
def test_records_have_what_the_loss_reads_and_the_metrics_are_known(kind: str) -> None:
    config = config_of(kind)
    records = {feature.name for feature in contract(config)}
    loss = make_loss(config)
    for target in loss.targets:
        assert {target.targets, target.weights or target.targets} <= records
    assert make_scorers(config.objective)
    assert make_collectors(config)


def test_the_model_answers_each_target(trained: TrainedRun) -> None:
    config = trained.config
    assert {target.output for target in make_loss(config).targets} == set(
        trained.model.output
    )
    weights = {weight.path for weight in trained.model.weights}
    heads = head_shapes(config.model, config.objective, len(trained.tokenizer.pieces))
    assert set(heads) <= weights


@tensorflow_only
def test_signatures_phone_and_formatter(trained: TrainedRun) -> None:
    objective = trained.config.objective
    task = make_signature_task(trained)
    endpoints = task.endpoints()
    default = endpoints["serving_default"]
    assert set(input_names(objective)) <= {spec.name for spec in default.inputs}
    signature = traits(objective).ids_signature
    assert signature is None or signature in endpoints
    assert set(task.phone_endpoints()) & set(USES)
    traced = tf.function(default.function).get_concrete_function(*default.inputs)
    outputs = frozenset(traced.structured_outputs) - {"truncated"}
    assert outputs == set(traits(objective).outputs)
    assert formatter_of_outputs(outputs) is not None


def test_one_whole_parity_checker_is_chosen(
    trained: TrainedRun, monkeypatch, tmp_path
) -> None:
    """`from_run` is replaced, so that no model is called."""
    chosen = []
    for checker in vars(checker_factory).values():
        if isinstance(checker, type) and hasattr(checker, "from_run"):
            keep = classmethod(lambda cls, *_: chosen.append(cls))
            monkeypatch.setattr(checker, "from_run", keep)
    checker_factory.make_parity_checker(trained, tmp_path)
    (checker,) = chosen
    assert not inspect.isabstract(checker)
    for member in ("saved_model_rows", "phone_rows", "ask_once", "ask_phone_once"):
        assert callable(getattr(checker, member))
