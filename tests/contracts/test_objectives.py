"""Everything that each kind of objective must have, for each kind of the table."""

import inspect
from typing import get_args

import pytest
import tensorflow as tf

from tests.model.conftest import tensorflow_only
from tests.objective_configs import EVERY, KINDS, config_of
from tests.serving.untrained import untrained_of
from transbeam.configs.loader.compatibility import check_model
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.traits import (
    TRAITS,
    input_names,
    traits,
)
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

every_model = pytest.mark.parametrize(("kind", "model"), EVERY)


@pytest.fixture(scope="module", params=EVERY, ids="-".join)
def trained(request, tmp_path_factory) -> TrainedRun:
    folder = tmp_path_factory.getbasetemp() / "tokenizers"
    folder.mkdir(exist_ok=True)
    return untrained_of(config_of(*request.param), folder)


def test_the_table_has_each_kind_once() -> None:
    assert sorted(TRAITS) == sorted(KINDS)
    assert len(get_args(Objective)) == len(TRAITS)


@every_model
def test_configuration(kind: str, model: str) -> None:
    config = config_of(kind, model)
    check_model(config)
    check_needs(config)
    row = TRAITS[kind]
    assert len(row.example) == len(row.inputs)
    assert row.sentence.format(n=2)


@every_model
def test_records_have_what_the_loss_reads_and_the_metrics_are_known(
    kind: str, model: str
) -> None:
    config = config_of(kind, model)
    records = {feature.name for feature in contract(config)}
    loss = make_loss(config)
    for target in loss.targets:
        assert {target.targets, target.weights or target.targets} <= records
    assert make_scorers(config.objective, config.evaluation)
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
