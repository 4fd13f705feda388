"""The page about a sweep."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from transbeam.configs.loader.sweep import Sweep
from transbeam.pipeline.pages.pictures import COLORS
from transbeam.trainer.pages.svg_curves import Curve, curves
from transbeam.trainer.pages.sweep_page import sweep_page

HOSTILE = """<script>alert("a" + 'b')</script> & &amp; </td>"""


class Reader(HTMLParser):
    """Parses a page as a browser does: elements, text and attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def plan(**grid: tuple[str, ...]) -> Sweep:
    values = {key.replace("__", "."): value for key, value in grid.items()}
    return Sweep("peaks", Path("base.yaml"), (), values)


def outcome(folder: Path, *replaced: str, loss: float = 2.0) -> dict[str, Any]:
    scores = {"accuracy": 0.25, "nats_per_token": loss}
    told = {"replaced": list(replaced), "run": str(folder), "error": None}
    numbers = {"parameters": 1234, "seconds": 61.0, "tokens_per_second": 900}
    return {**told, "loss": loss, "scores": scores, **numbers}


def validate(folder: Path, count: int) -> None:
    (folder / "training").mkdir(parents=True)
    rows = ({"step": n + 1, "val_loss": 1 / (n + 1)} for n in range(count))
    lines = (json.dumps(row) + "\n" for row in rows)
    (folder / "training/metrics.jsonl").write_text("".join(lines), "utf-8")


@pytest.mark.parametrize(("validations", "dots"), [(1, 1), (30, 30), (31, 0)])
def test_few_validations_are_dots_on_the_line(tmp_path, validations, dots) -> None:
    validate(tmp_path, validations)
    page = sweep_page(plan(seed=("1",)), [outcome(tmp_path, "seed=1")])
    assert (lines(page), marks(page)) == (1, dots)


def test_scores_of_trainings_and_validations_have_charts_of_their_own(tmp_path) -> None:
    rows = [
        {"step": 2, "loss": 3.0, "accuracy": 0.1},
        {"step": 2, "val_loss": 2.0, "val_loss_pair": 1.0, "val_accuracy": 0.2},
        {"step": 4, "val_loss": 1.5, "val_accuracy": 0.3, "val_macro_f1": 0.4},
    ]
    (tmp_path / "a/training").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a/training/metrics.jsonl").write_text(text, "utf-8")
    validate(tmp_path / "b", 2)  # of a run whose log has the loss alone
    runs = [outcome(tmp_path / name, f"seed={name}") for name in "ab"]
    page = sweep_page(plan(seed=("a", "b")), runs)
    assert re.findall("<h2>(.*?)</h2>", page)[:-1] == [
        "Validation loss",
        "Training loss",
        "Validation accuracy",
        "Training accuracy",
        "Validation macro f1",
    ]
    losses, *_, f1 = re.findall(r"<svg.*?</svg>", page, re.S)
    assert (lines(losses), lines(losses, COLORS[1])) == (1, 1)
    assert "validation loss of the best runs" in losses.lower()
    # A point that is alone is a dot; the second run has none.
    assert (marks(f1), lines(f1, COLORS[1])) == (1, 0)


def test_a_point_that_is_alone_is_always_a_dot() -> None:
    alone, line = Curve("", [(5, 1.0)]), Curve("", [(5, 2.0), (6, 1.0)])
    svg = curves([alone, line], "two lines")
    assert (marks(svg, COLORS[0]), marks(svg, COLORS[1])) == (1, 0)


def lines(page: str, color: str = COLORS[0]) -> int:
    """Counts the lines of a color in the axes; the legend is not clipped."""
    return len(re.findall(rf'clip-path="[^"]*" style="fill: none;[^"]*{color}', page))


def marks(page: str, color: str = COLORS[0]) -> int:
    """Counts the marked points of a line in the axes."""
    groups = re.findall(r"<g clip-path=.*?</g>", page, re.S)
    return sum(group.count(f'style="fill: {color}') for group in groups)


@pytest.mark.parametrize("key", ["data__shuffle", "tokenizer__kind", "objective"])
def test_it_says_that_losses_are_not_of_the_same_thing(tmp_path, key) -> None:
    grid = {"training__steps": ("5",), key: ("1",)}
    runs = [outcome(tmp_path, "training.steps=5", "x=1")]
    text = Reader(sweep_page(plan(**grid), runs)).text
    name = key.replace("__", ".")
    assert f"compare those of runs that have the same {name}, or a score" in text
    del grid[key]
    assert "not of the same" not in Reader(sweep_page(plan(**grid), runs)).text


def test_hostile_text_stays_text(tmp_path) -> None:
    validate(tmp_path, 2)
    whole = Sweep(HOSTILE, Path(HOSTILE), (HOSTILE,), {f"data.{HOSTILE}": (HOSTILE,)})
    good = outcome(tmp_path, f"key={HOSTILE}")
    good["scores"][HOSTILE] = 1.0
    bad = {"replaced": [f"key={HOSTILE}"], "run": "none", "error": f"said {HOSTILE}"}
    page = Reader(sweep_page(whole, [good, bad]))
    plain = Reader(sweep_page(plan(data__x=("1",)), [good | {"scores": {"s": 1}}, bad]))
    assert "script" not in page.tags
    assert page.attributes == plain.attributes
    # Title and heading, base, fixed, its key twice, a score, two values, an error.
    assert page.text.count(HOSTILE) == 10
