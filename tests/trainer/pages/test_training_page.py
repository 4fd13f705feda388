"""The pages and pictures of a training."""

import math
import re

import pytest

from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.pages.pictures import COLORS, GRAY
from transbeam.trainer.loop.mfu import peak_flops, step_flops
from transbeam.trainer.pages.svg_curves import Curve, curves
from transbeam.trainer.pages.training_page import nearest_preset, training_report

ROWS = [
    {"step": 10, "loss": 4.0, "gradient_norm": 2.0, "learning_rate": 1e-3}
    | {"gradient_norms": {"embeddings": 1.6, "encoder_layer_0": 1.2}}
    | {"tokens_per_second": 10, "input_wait": 0.5, "mfu": 0.01},
    {"step": 20, "val_loss": 3.5, "val_accuracy": 0.1},
    {"step": 20, "loss": 3.0, "gradient_norm": 1.0, "learning_rate": 5e-4}
    | {"tokens_per_second": 900, "input_wait": 0.01, "mfu": 0.3},
]


def drawn(svg: str, color: str) -> list[tuple[float, float]]:
    """The corners of the line of a color."""
    style = (
        f'clip-path="[^"]*" style="fill: none;[^"]*{color}'  # the legend has no clip
    )
    (path,) = re.findall(f'<path d="([^"]*)" {style}', svg)
    corners = re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)
    return [(float(x), float(y)) for x, y in corners]


def test_a_curve_lies_where_its_numbers_say() -> None:
    line = Curve("", [(0, 1.0), (50, math.nan), (75, 2.0), (100, 3.0)])
    svg = curves([line], "a & b")
    (x0, y0), (x1, y1), (x2, y2) = drawn(svg, COLORS[0])
    assert (x1 - x0) / (x2 - x0) == pytest.approx(0.75)
    assert (y1 - y0) / (y2 - y0) == pytest.approx(0.5)
    assert y0 > y2  # upwards is less
    assert "aria-label='a &amp; b'" in svg
    assert curves([Curve("", [(1, math.nan)])], "nothing") == ""


def test_a_limit_is_a_line_across() -> None:
    line = Curve("training", [(0, 1.0), (100, 3.0)])
    svg = curves([line], "loss", ("even", 2.0))
    (_, y0), (_, y1) = drawn(svg, COLORS[0])
    (_, limit), (_, right) = drawn(svg, f'dasharray[^"]*{GRAY}')
    assert limit == right == pytest.approx((y0 + y1) / 2)
    assert re.findall(">(even|training)</text>", svg) == ["training", "even"]


def test_the_page_tells_of_the_training_and_of_the_nearest_preset() -> None:
    run = load_run("configs/tiny/bert_base.yaml", ["training.steps=77"])
    evaluation = {"unigram_entropy": 5.0}
    result = {"parameters": 1234, "steps": 77, "skipped_steps": 2, "seconds": 61.0}
    result["epochs"] = 3.25
    result |= {"summary": "loss <1>", "evaluation": evaluation}
    page = training_report(run, ROWS, result, {"backend": "tensorflow"})
    assert "loss &lt;1&gt;" in page
    assert page.count("<svg role='img'") == 6
    assert "<h2>Accuracy</h2><p>of validations</p>" in page
    assert "<h2>Gradient norm by part</h2>" in page
    assert "bert_base</th>" in page
    assert "training.steps</th><td>1000000</td><td>77</td>" in page
    assert "epochs</th><td>3.25</td>" in page
    assert "<td>900</td>" in page  # without the line that has the compilation in it
    assert "<td>30.0%</td>" in page
    unknown = [{k: v for k, v in row.items() if k != "mfu"} for row in ROWS]
    assert "MFU" not in training_report(run, unknown, result, {})
    assert "http" not in page


def test_the_nearest_preset_has_the_same_sockets() -> None:
    run = load_run("configs/tiny/llama_7b.yaml")
    found = nearest_preset(run)
    assert found is not None
    name, differences = found
    assert name == "llama_7b"
    kinds = [key for key, _, _ in differences if key.endswith(".kind")]
    assert not [key for key in kinds if key.startswith("model.")]


def test_another_task_is_beside_a_preset_of_its_family() -> None:
    run = load_run("configs/tiny/prefix.yaml")
    found = nearest_preset(run)
    assert found is not None
    name, differences = found
    assert name.startswith("gpt")
    assert ("objective.kind", "causal", "prefix") in differences


def test_work_of_a_step_against_what_a_device_can_do() -> None:
    run = load_run("configs/tiny/causal.yaml")
    weights = 1_000  # at least, of any model
    assert step_flops(run, 300) > 6 * weights * run.training.batch_size
    assert 1e8 < peak_flops("float32") < 1e16
    assert 1e8 < peak_flops("bfloat16") < 1e17
