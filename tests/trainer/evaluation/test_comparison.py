"""The comparison with an export's scores, and when there is none."""

from pathlib import Path

import pytest

from transbeam.configs.base.atomic_files import write_json
from transbeam.trainer.evaluation.comparison import compare

MADE = {"records": "5" * 64, "training": "a1"}


def scores(**values: float | None) -> dict:
    return {name: {"score": value} for name, value in values.items()}


def test_differences_are_those_from_the_run(tmp_path: Path) -> None:
    own = {"made_from": MADE, "scores": scores(accuracy=0.5, perplexity=8.0, rare=None)}
    write_json(tmp_path / "scores.json", own)
    found = scores(accuracy=0.375, perplexity=9.0, rare=1.0, further=2.0)
    told = compare(tmp_path, {"made_from": MADE, "scores": found})
    assert told is not None
    assert told.run_scores == {"accuracy": 0.5, "perplexity": 8.0, "rare": None}
    assert told.differences == {"accuracy": -0.125, "perplexity": 1.0}
    assert str(told).endswith(": accuracy -0.1250, perplexity +1.0000")


@pytest.mark.parametrize("key", MADE)
def test_other_records_or_weights_are_not_compared(tmp_path: Path, key: str) -> None:
    result = {"made_from": MADE, "scores": scores(accuracy=0.5)}
    assert compare(tmp_path, result) is None
    write_json(tmp_path / "scores.json", {**result, "made_from": {**MADE, key: "b2"}})
    assert compare(tmp_path, result) is None
    write_json(tmp_path / "scores.json", {"scores": result["scores"]})  # of before
    assert compare(tmp_path, result) is None
