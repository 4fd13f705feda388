"""Epochs in steps: batches of one pass, counted by hand."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.pipeline.objectives.word_tokenizer import run_of
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.schedules import LinearScheduleConfig
from transbeam.configs.schema.training import DatasetConfig, TrainingConfig
from transbeam.pipeline.records import epochs as module
from transbeam.pipeline.records.epochs import batches_per_epoch, settle_steps
from transbeam.pipeline.records.manifest import Manifest, Shard


def manifest(records: dict[int, list[int]], buckets: tuple[int, ...] = ()) -> Manifest:
    """Training records by length, and more for validation, which are not counted."""
    shards = [
        Shard(f"{split}-{length}-{i}", split, count, 1, "", length)
        for length, counts in records.items()
        for split, more in (("train", 0), ("validation", 5))
        for i, count in enumerate([*counts, more])
    ]
    return Manifest(Path("data"), (), tuple(shards), {}, {}, dict.fromkeys(buckets, ()))


BUCKETED = manifest({32: [10], 8: [60, 30], 16: [40]}, (8, 16, 32))
ONE_LENGTH = manifest({32: [1_000, 234]})


def run(objective: MaskedConfig | None = None, **training):
    training = {"batch_size": 32, **training}
    made = run_of(objective or MaskedConfig(), 32)
    return replace(made, training=TrainingConfig(**training))


@pytest.mark.parametrize(
    ("records", "training", "batches"),
    [
        (ONE_LENGTH, {"batch_size": 32}, Fraction(1234, 32)),
        (ONE_LENGTH, {"batch_size": 32, "accumulation": 16}, Fraction(1234, 32)),
        # As many tokens as 2 records of 32: 4 of 16, 8 of 8.
        (
            BUCKETED,
            {"batch_size": 2},
            Fraction(10, 2) + Fraction(40, 4) + 90 // 8 + 0.25,
        ),
        # 5 records of 32 are 10 of 16, and for five parts no multiple of 8.
        (BUCKETED, {"batch_size": 5, "accumulation": 5}, 2 + 4 + Fraction(90, 20)),
        # 6 · 32 / 8 = 24 records, and 12: by two, and by lcm(3, 2) = 6.
        (BUCKETED, {"batch_size": 6}, Fraction(10, 6) + Fraction(40, 12) + 90 / 24),
        (BUCKETED, {"batch_size": 6, "accumulation": 3}, Fraction(5) + 90 / 24),
        # A bucket without records is the longest nevertheless: of 32, 8 make 4 · 4.
        (manifest({16: [64]}, (16, 32)), {"batch_size": 4}, 8),
    ],
)
def test_batches_of_an_epoch(records, training, batches) -> None:
    assert batches_per_epoch(run(epochs=1.0, **training), records) == batches


def test_batches_of_others_lie_between_those_of_the_run() -> None:
    others = tuple(DatasetConfig(run="x", weight=w) for w in (0.1, 2.0))
    config = run(epochs=1.0, batch_size=10, datasets=others)
    assert batches_per_epoch(config, manifest({32: [100]})) == Fraction(31)


@pytest.mark.parametrize(
    ("epochs", "batch_size", "steps"),
    [
        (3.0, 32, 116),  # 115.7
        (0.5, 617, 1),  # 1 exactly
        (1e-6, 32, 1),
        (0.1, 1234, 1),
        (10.1, 617, 21),  # 20.2
        # 4.35 · 200 is 869.9999999999999 in floating point, and 0.07 · 100 above 7.
        (4.35, 6.17, 870),
        (0.07, 12.34, 7),
    ],
)
def test_steps_are_rounded_up(monkeypatch, epochs, batch_size, steps) -> None:
    monkeypatch.setattr(module, "read_manifest", lambda folder: ONE_LENGTH)
    if isinstance(batch_size, float):
        batches = Fraction("1234") / Fraction(repr(batch_size))
        monkeypatch.setattr(module, "batches_per_epoch", lambda *_: batches)
        batch_size = 32
    config = run(epochs=epochs, batch_size=batch_size)
    assert settle_steps(config, Path()) == run(steps=steps, batch_size=batch_size)


@pytest.mark.parametrize(
    ("records", "how", "told"),
    [
        (ONE_LENGTH, {}, "3 epochs of 1,234 records = 116 steps of 32"),
        (
            BUCKETED,
            {"batch_size": 2, "epochs": 1.0},
            "1 epoch of 140 records = 27 steps of 2 or more",
        ),
        (
            ONE_LENGTH,
            {"objective": MaskedConfig(copies=10), "epochs": 0.5},
            "0.5 epochs of 1,234 records (objective.copies=10) = 20 steps of 32",
        ),
        (
            ONE_LENGTH,
            {"datasets": (DatasetConfig(run="x"),)},
            "3 epochs of 1,234 records and the batches of training.datasets beside "
            "them = 232 steps of 32",
        ),
    ],
)
def test_it_says_where_the_number_is_from(monkeypatch, records, how, told) -> None:
    monkeypatch.setattr(module, "read_manifest", lambda folder: records)
    lines: list[str] = []
    settle_steps(run(**{"epochs": 3.0, **how}), Path(), lines.append)
    assert lines == [told]


def test_a_schedule_that_does_not_fit_names_the_epochs(monkeypatch) -> None:
    monkeypatch.setattr(module, "read_manifest", lambda folder: ONE_LENGTH)
    config = run(epochs=3.0, schedule=LinearScheduleConfig(warmup_steps=500))
    with pytest.raises(ConfigError) as caught:
        settle_steps(config, Path())
    assert str(caught.value) == (
        "training.epochs: 3 epochs of 1,234 records = 116 steps of 32: "
        "schedule.warmup_steps=500 is more than steps=116. Left out, it is a tenth of "
        "them"
    )


def test_steps_need_no_records(tmp_path) -> None:
    config = run(steps=5)
    assert settle_steps(config, tmp_path) is config
    with pytest.raises(ArtifactError, match="the data job has not finished here"):
        settle_steps(run(epochs=1.0), tmp_path)
