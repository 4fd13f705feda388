"""The file of a sweep."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.sweep import load_sweep
from transbeam.configs.loader.yaml_config import load_run

WHOLE = """
name: peaks
base: configs/tiny/masked.yaml
set: {training.steps: 500, training.optimizer.not_decayed: [bias$, "no"]}
grid:
  training.schedule: [{kind: linear, peak: 1e-3}, {kind: constant}]
  seed: [1, 2]
"""


def read(tmp_path: Path, text: str):
    file = tmp_path / "sweep.yaml"
    file.write_text(text, "utf-8")
    return load_sweep(file)


def test_every_combination_is_a_run(tmp_path) -> None:
    sweep = read(tmp_path, WHOLE)
    assert sweep.fixed == (
        "training.steps=500",
        'training.optimizer.not_decayed=["bias$", "no"]',
    )
    points = list(sweep.points())
    assert [point[1] for point in points] == ["seed=1", "seed=2"] * 2
    runs = [load_run(sweep.base, ["training.steps=200", *point]) for point in points]
    found = [(run.training.schedule.kind, run.seed) for run in runs]
    assert found == [("linear", 1), ("linear", 2), ("constant", 1), ("constant", 2)]
    assert runs[0].training.schedule.peak == 1e-3


def test_epochs_in_the_grid_replace_the_steps_of_the_base(tmp_path) -> None:
    text = WHOLE.replace("training.steps: 500, ", "").replace(
        "  seed: [1, 2]", "  training.epochs: [1, 0.5]"
    )
    sweep = read(tmp_path, text)
    runs = [load_run(sweep.base, point).training for point in sweep.points()]
    assert [(run.steps, run.epochs) for run in runs] == [(None, 1.0), (None, 0.5)] * 2


def test_texts_in_blocks_keep_their_signs(tmp_path) -> None:
    block = """
  data.source:
    - kind: text
      path: corpus/part[0-9],{a}.txt
"""
    sweep = read(tmp_path, WHOLE.replace("  seed: [1, 2]", block))
    ((_, override), *_) = sweep.points()
    run = load_run(sweep.base, [override, *sweep.fixed])
    assert run.data.source.path == "corpus/part[0-9],{a}.txt"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: peaks\n", "", "name: is missing"),
        ("grid:", "grids:", "sweep.yaml:5: grids: is no key of a sweep"),
        ("seed: [1, 2]", "seed: 1", "sweep.yaml:7: grid.seed: expected a list"),
        ("seed: [1, 2]", "seed: []", "grid.seed: expected a list"),
        ("seed: [1, 2]", f"seed: {list(range(501))}", "1,002 runs; a sweep has 1,000"),
        (WHOLE, "name: a\nbase: [b]\ngrid: {a: [1]}", "base: expected a text"),
        ("name: peaks", "name: ../up", "name: expected letters"),
        ("seed: [1, 2]", "training.steps: [1]", "stands in `set` too"),
        (
            "seed: [1, 2]",
            "training.epochs: [1, 2]",
            "sweep.yaml:5: grid: the sweep has training.steps and training.epochs",
        ),
        (WHOLE, "- a", "expected the keys of a sweep"),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path, old, new, told) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, WHOLE.replace(old, new))
    assert told in str(error.value)
