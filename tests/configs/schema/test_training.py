"""Requirements of the keys of `training` on one another."""

from typing import get_args

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.optimizers import NOT_DECAYED, AdamWConfig, Optimizer
from transbeam.configs.schema.schedules import (
    CosineScheduleConfig,
    Schedule,
    WsdScheduleConfig,
)
from transbeam.configs.schema.training import TrainingConfig

RUN = "name: small\ndata: {source: {kind: text, path: x}}\ntraining:\n  steps: 100\n"


def parse(*overrides: str) -> TrainingConfig:
    return parse_run(RUN, "run.yaml", [f"training.{key}" for key in overrides]).training


@pytest.mark.parametrize(
    ("override", "told"),
    [
        (
            "schedule={kind: linear, warmup_steps: 101}",
            r"schedule.warmup_steps=101 is more than steps=100",
        ),
        ("schedule={kind: noam, warmup_steps: 4000}", "=4000 is more than steps=100"),
        ("best_metric=accuracy", "with final_weights=last the weights are those of"),
        ("schedule={kind: noam, warmup_steps: 0}", "it must be at least 1"),
        ("schedule={kind: inverse_sqrt, warmup_steps: 0}", "it must be at least 1"),
        (
            "schedule={kind: wsd, warmup_steps: 61, decay_fraction: 0.4}",
            r"decay_fraction=0.4 of steps=100 is 40 steps, which leaves no room for "
            r"schedule.warmup_steps=61",
        ),
        (
            "schedule={kind: wsd, shape: cosine}",
            "expected 'linear' or 'sqrt', found the text 'cosine'",
        ),
        (
            "schedule={kind: constant, final_fraction: 0.1}",
            "is a key of kind 'cosine', but the kind here is 'constant'",
        ),
        ("accumulation=3", r"accumulation=3 does not divide batch_size=32"),
        (
            "optimizer.not_decayed=['bias$', '(kernel']",
            r"not_decayed='\(kernel' is not a regular expression: missing \)",
        ),
        ("optimizer={kind: lion, beta_1: 0}", "out of range"),
        ("optimizer={kind: adamw, weight_decay: 1.5}", "it must be from 0.0 to 1.0"),
        ("optimizer.clip_norm=1", "Did you mean 'training.clip_norm'?"),
        (
            "optimizer={kind: adam}",
            "no such kind: the text 'adam'. Did you mean 'adamw'?",
        ),
        ("clip_norm=0", "it must be at least 1e-06"),
        ("label_smoothing=0.6", "it must be from 0.0 to 0.5"),
        ("ema_decay=1", "it must be from 0.0 to 0.99999"),
        ("precision=mixed_float", "Did you mean 'mixed_float16'?"),
    ],
)
def test_refused(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse(override)


@pytest.mark.parametrize("kind", [kind.kind for kind in get_args(Optimizer)])
def test_every_optimizer_is_read_and_written(kind: str) -> None:
    run = parse_run(RUN, "run.yaml", [f"training.optimizer.kind={kind}"])
    assert run.training.optimizer.kind == kind
    assert run.training.optimizer.not_decayed == NOT_DECAYED
    assert parse_run(dump_run(run), "copy.yaml") == run


@pytest.mark.parametrize("kind", [kind.kind for kind in get_args(Schedule)])
def test_every_schedule_is_read_and_written(kind: str) -> None:
    override = f"training.schedule={{kind: {kind}, warmup_steps: 10}}"
    run = parse_run(RUN, "run.yaml", [override])
    assert run.training.schedule.kind == kind
    assert parse_run(dump_run(run), "copy.yaml") == run


def test_warm_up_and_decay_may_fill_the_run() -> None:
    training = parse("schedule={kind: wsd, warmup_steps: 60, decay_fraction: 0.4}")
    assert training.schedule == WsdScheduleConfig(warmup_steps=60, decay_fraction=0.4)


@pytest.mark.parametrize(
    ("schedule", "steps", "warmup_steps"),
    [
        ("{kind: cosine}", 60, 6),
        ("{kind: linear}", 9, 0),
        ("{kind: constant}", 50_000, 100),
        ("{kind: inverse_sqrt}", 5, 1),
        ("{kind: noam}", 5, 1),
        ("{kind: noam}", 100_000, 4_000),
        ("{kind: wsd, decay_fraction: 0.95}", 100, 5),
        ("{kind: wsd, decay_fraction: 1.0}", 100, 0),
    ],
)
def test_a_warm_up_that_is_left_out_fits_any_steps(
    schedule: str, steps: int, warmup_steps: int
) -> None:
    training = parse(f"schedule={schedule}", f"steps={steps}")
    assert training.schedule.warmup_steps is None
    assert training.with_warmup().schedule.warmup_steps == warmup_steps


def test_a_warm_up_that_was_shorter_stays_unless_it_is_given() -> None:
    assert parse("steps=30").with_warmup(2).schedule.warmup_steps == 2
    given = parse("steps=30", "schedule={kind: constant, warmup_steps: 5}")
    assert given.with_warmup(2) == given


def test_a_length_is_steps_or_epochs() -> None:
    training = parse("epochs=0.5")
    assert (training.steps, training.epochs) == (None, 0.5)
    assert training.with_steps(7) == parse("steps=7")
    assert parse("epochs=3").with_warmup() == parse("epochs=3")
    with pytest.raises(ValueError, match="have not been converted"):
        _ = training.total_steps
    assert training.with_steps(7).total_steps == 7
    # What depends on the number of steps is checked once that is known.
    warm = parse("epochs=3", "schedule={kind: linear, warmup_steps: 50}")
    assert warm.with_steps(50).schedule.warmup_steps == 50
    with pytest.raises(ConfigError, match="=50 is more than steps=49"):
        warm.with_steps(49)


@pytest.mark.parametrize(
    ("length", "told"),
    [
        ("batch_size: 8", "run.yaml:3: training: its length is missing. Write `steps"),
        (
            "steps: 5\n  epochs: 2",
            "run.yaml:4: training: steps=5 and epochs=2 both say how long to train",
        ),
        ("epochs: 0", "training.epochs: 0.0 is out of range"),
        ("epochs: .inf", "training.epochs: the number .inf is not finite"),
        ("epochs: three", "training.epochs: expected a number"),
    ],
)
def test_other_lengths_are_refused(length: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_run(RUN.replace("steps: 100", length), "run.yaml")


def test_defaults() -> None:
    training = parse("optimizer.not_decayed=[]")
    assert training.optimizer == AdamWConfig(not_decayed=())
    assert training.schedule == CosineScheduleConfig()
    assert (training.clip_norm, training.ema_decay) == (1.0, None)
    assert parse("clip_norm=").clip_norm is None
