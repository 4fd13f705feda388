"""Pages of pictures: every kind, and a run's own; and requests that are refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import transbeam
from tests.harness.stages import copy_of
from transbeam.configs.base.reflection import section_kinds
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import Attention
from transbeam.configs.schema.block import Position
from transbeam.configs.schema.schedules import NoamScheduleConfig, Schedule
from transbeam.model.stack.stack_spec import stack_specs
from transbeam.model.weights.assign import variables_by_path
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.explanation import run_pictures
from transbeam.trainer.explanation.run_pictures import draw_run
from transbeam.trainer.explanation.schedule_pictures import schedule_points

ROOT = Path(__file__).parents[3]


def check_page(page: Path, titles: list[str]) -> str:
    """Asserts that a page has these sections, and needs nothing else."""
    text = page.read_text()
    assert re.findall(r"<h2>(.*?)</h2>", text) == titles
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    return text


def test_a_page_of_all_kinds(command, tmp_path) -> None:
    page, folder = tmp_path / "kinds.html", tmp_path / "new/pictures"
    told = command("explain", "--page", page, "--pictures", folder)
    assert told["code"] == 0
    titles = [picture["title"] for picture in told["pictures"].values()]
    for section, key in ((Position, "position"), (Attention, "attention")):
        for kind in section_kinds(section):
            assert f"{key}: {kind}" in titles
    text = check_page(page, titles)
    for kind in section_kinds(Schedule):
        assert f">{kind}<" in text  # in the legend of the one picture of them
    # Nothing is to be drawn of `none` alone.
    without = [p["title"] for p in told["pictures"].values() if p["file"] is None]
    assert without == ["position: none"]
    drawn = {Path(p["file"]).name for p in told["pictures"].values() if p["file"]}
    assert {file.name for file in folder.iterdir()} == drawn
    assert all(file.read_text().startswith("<svg") for file in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        (
            "prefix",
            [
                "parameters",
                "position: learned",
                "attention: full",
                "training.schedule",
            ],
        ),
        (
            "t5_small",
            [
                "parameters",
                "encoder: position: relative_bias",
                "encoder: attention: full",
                "decoder: position: relative_bias",
                "decoder: attention: full",
                "training.schedule",
            ],
        ),
    ],
)
def test_a_page_of_a_run(command, tmp_path, name, titles) -> None:
    page = tmp_path / "run.html"
    config = ROOT / f"configs/tiny/{name}.yaml"
    pruning = "training.pruning={sparsity: 0.5, begin_step: 10, end_step: 60}"
    told = command("explain", config, "--page", page, "--set", pruning)
    assert told["code"] == 0
    text = check_page(page, titles)
    assert "zeros in the pruned weights" in text
    if name == "prefix":
        panels = ("one document", "packed documents", "prefix")
        assert all(f">{panel}<" in text for panel in panels)


def test_learning_rates_are_those_of_the_training() -> None:
    numbers, rates = schedule_points(NoamScheduleConfig(warmup_steps=40), 400, 64)
    assert (numbers[0], numbers[-1]) == (1, 400)
    expected = 64**-0.5 * np.minimum(numbers**-0.5, numbers * 40**-1.5)
    np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_positions_of_a_trained_run_are_the_trained_ones(
    small_trained, tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "run"
    copy_of(small_trained, folder)
    run = load_run(folder, with_model=True)
    seen = []
    draw = run_pictures.draw_position

    def watched(spec, length, table=None):
        seen.append(table)
        return draw(spec, length, table)

    monkeypatch.setattr(run_pictures, "draw_position", watched)
    (_, position, *_) = draw_run(run, folder)
    weights = variables_by_path(load_trained(folder).model)
    trained = weights["position_embedding/embeddings"].numpy()
    np.testing.assert_array_equal(seen[0], trained)
    assert "trained ones" in position.note
    # Of its file alone, the initial ones.
    (_, position, *_) = draw_run(run, folder / "training/run.yaml")
    assert seen[1] is None
    assert "drawn at random" in position.note
    assert list(stack_specs(run.model)) == ["encoder"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model.positions", "--page", "x.html"], "Did you mean 'model.position'?"),
        (["model.norm", "--page", "x.html"], "there are pictures of model.position"),
        (["none.yaml", "--page", "x.html"], "none.yaml"),
        (["model.position", "--page", "none/x.html"], "there is no folder none"),
        (["configs/demo.yaml"], "Pictures of this one: --page"),
        (["model.position", "--set", "seed=1"], "Add --page FILE, or remove it"),
        (["model.position", "--page", "x.html", "--set", "seed=1"], "is a key"),
        (["--page", "x.html", "--set", "seed=1"], "none is named"),
        (["configs/demo.yaml", "--page", "x.html", "--set", "sed=1"], "'seed'?"),
    ],
)
def test_what_is_refused(capsys, tmp_path, monkeypatch, words, said) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    assert transbeam.main(["explain", *words, "--json"]) == 2
    assert said in json.loads(capsys.readouterr().out)["error"]
    assert not (tmp_path / "x.html").exists()
